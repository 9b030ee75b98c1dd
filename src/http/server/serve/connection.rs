//! One connection, HTTP/1 or cleartext HTTP/2, from its first byte to its end.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::{BoxError, Router};
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::body::Held;
use super::pace::Pace;
use super::site::Site;
use super::stall::Socket;
use super::streams::Streams;
use super::timeouts::Timeouts;
use crate::http::server::forwarded::{BASE, Forwarding};

/// Bytes that a connection holds in each direction, a request's head among them. What waits here
/// for a client that reads slowly is held for each of them.
const BUFFER: usize = 64 * 1024;
/// How often a client of HTTP/2 must show that it lives, and how long it may take to.
const PING_EVERY: Duration = Duration::from_secs(20);

/// What all connections share.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    router: Router,
    forwarding: Arc<Forwarding>,
    timeouts: Timeouts,
    draining: CancellationToken,
    protocol: Builder<Streams>,
}

impl Connection {
    /// Connections that are served by this site.
    pub(super) fn new(site: Site) -> Self {
        let Site { router, forwarding, timeouts, draining } = site;
        let streams = Streams { patience: timeouts.write, draining: draining.clone() };
        let mut protocol = Builder::new(streams);
        protocol.http1().max_buf_size(BUFFER).header_read_timeout(None);
        // Streams, heads and resets are bounded by the library's defaults.
        protocol
            .http2()
            .timer(TokioTimer::new())
            .max_send_buf_size(BUFFER)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY);
        Self { router, forwarding: Arc::new(forwarding), timeouts, draining, protocol }
    }

    /// Serves requests until the client leaves, is late, or the service drains; what is in hand
    /// by then is carried to its end.
    pub(super) async fn serve(self, stream: TcpStream, peer: IpAddr) {
        let Self { router, forwarding, timeouts, draining, protocol } = self;
        let pace = Pace::new(timeouts);
        let socket = Socket {
            stream,
            pace: Arc::clone(&pace),
            patience: timeouts.write,
            draining: draining.clone(),
            read: 0,
            stall: None,
        };
        let service = service_fn(|request: Request<Incoming>| {
            let in_hand = pace.begin(request.version() == Version::HTTP_2);
            let mut request = request.map(Body::new);
            let base = forwarding.receive(&mut request, peer);
            let response = BASE.scope(base, router.clone().oneshot(request));
            async move {
                let response = response.await?;
                Ok::<_, Infallible>(response.map(|body| Held::new(body, in_hand)))
            }
        });
        let mut connection = pin!(protocol.serve_connection(TokioIo::new(socket), service));
        tokio::select! {
            ended = &mut connection => return note(ended),
            () = pace.late() => {}
            () = draining.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        pace.leave();
        tokio::select! {
            ended = &mut connection => note(ended),
            () = pace.late() => {}
        }
    }
}

/// A connection that breaks is the client's affair, and nobody is left to be told.
fn note(ended: Result<(), BoxError>) {
    if let Err(error) = ended {
        tracing::debug!(error, "a connection broke");
    }
}
