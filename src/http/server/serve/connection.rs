//! One connection, HTTP/1 or cleartext HTTP/2.

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

use super::body::TrackedBody;
use super::connection_deadline::ConnectionDeadline;
use super::site::Site;
use super::stall::Socket;
use super::streams::Streams;
use super::timeouts::Timeouts;
use crate::http::server::forwarded::{BASE, Forwarding};

/// The buffer of a connection in each direction in bytes, which bounds the head of a request too.
/// Each slow reader holds one.
const BUFFER: usize = 64 * 1024;
/// The interval and the timeout of HTTP/2 keep-alive pings.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// The state that all connections share.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    router: Router,
    forwarding: Arc<Forwarding>,
    timeouts: Timeouts,
    draining: CancellationToken,
    protocol: Builder<Streams>,
}

impl Connection {
    /// Prepares connections that serve a site.
    pub(super) fn new(site: Site) -> Self {
        let Site { router, forwarding, timeouts, draining } = site;
        let streams = Streams { timeout: timeouts.write, draining: draining.clone() };
        let mut protocol = Builder::new(streams);
        protocol.http1().max_buf_size(BUFFER).header_read_timeout(None);
        // The defaults of the library bound streams, heads and resets.
        protocol
            .http2()
            .timer(TokioTimer::new())
            .max_send_buf_size(BUFFER)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL);
        Self { router, forwarding: Arc::new(forwarding), timeouts, draining, protocol }
    }

    /// Serves requests until the client disconnects or exceeds a timeout, or the service drains.
    /// Active requests are completed.
    pub(super) async fn serve(self, stream: TcpStream, peer: IpAddr) {
        let Self { router, forwarding, timeouts, draining, protocol } = self;
        let deadline = ConnectionDeadline::new(timeouts);
        let socket = Socket {
            stream,
            deadline: Arc::clone(&deadline),
            timeout: timeouts.write,
            draining: draining.clone(),
            read: 0,
            stall: None,
        };
        let service = service_fn(|request: Request<Incoming>| {
            let active = deadline.begin(request.version() == Version::HTTP_2);
            let mut request = request.map(Body::new);
            let base = forwarding.receive(&mut request, peer);
            let response = BASE.scope(base, router.clone().oneshot(request));
            async move {
                let response = response.await?;
                Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, active)))
            }
        });
        let mut connection = pin!(protocol.serve_connection(TokioIo::new(socket), service));
        tokio::select! {
            ended = &mut connection => return log_end(ended),
            () = deadline.expired() => {}
            () = draining.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        deadline.begin_shutdown();
        tokio::select! {
            ended = &mut connection => log_end(ended),
            () = deadline.expired() => {}
        }
    }
}

/// Logs a broken connection. It is usually caused by the client, so it is a debug message.
fn log_end(ended: Result<(), BoxError>) {
    if let Err(error) = ended {
        tracing::debug!(error, "connection broke");
    }
}
