//! The HTTP clients of one model server.
//!
//! A client has one HTTP/2 connection to a server, and a server accepts a limited number of requests
//! at once on a connection; further ones wait in the client without a sign. So each client sends a
//! limited number of requests, and more clients are created as they are needed. With HTTP/1 each
//! request in progress has a connection in any case.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Client;

/// The requests of a client at once. RFC 9113 (6.5.2) recommends that servers accept at least 100.
const REQUESTS_AT_ONCE: usize = 100;

type NewClient = dyn Fn() -> reqwest::Result<Client> + Send + Sync;

/// The HTTP clients of one model server, as many as the requests in progress need.
pub(super) struct Clients {
    new_client: Box<NewClient>,
    first: Client,
    /// The clients with the numbers of their requests, as counts of references. The first ones are
    /// used first, so that the connections of the others can close when there are few requests.
    all: Mutex<Vec<ClientPermit>>,
}

/// A client for one request, which counts until it is dropped.
#[derive(Debug, Clone)]
pub(super) struct ClientPermit {
    pub(super) client: Client,
    requests: Arc<()>,
}

impl ClientPermit {
    fn new(client: Client) -> Self {
        Self { client, requests: Arc::default() }
    }

    /// The requests in progress, if this is the entry of the list.
    fn requests(&self) -> usize {
        Arc::strong_count(&self.requests) - 1
    }
}

impl Clients {
    /// Creates the first client.
    pub(super) fn new(
        new_client: impl Fn() -> reqwest::Result<Client> + Send + Sync + 'static,
    ) -> reqwest::Result<Self> {
        let first = new_client()?;
        let all = Mutex::new(vec![ClientPermit::new(first.clone())]);
        Ok(Self { new_client: Box::new(new_client), first, all })
    }

    /// The client for short requests, which are not counted.
    pub(super) const fn first(&self) -> &Client {
        &self.first
    }

    /// Returns the client of the next request.
    pub(super) fn permit(&self) -> ClientPermit {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = all.iter().find(|client| client.requests() < REQUESTS_AT_ONCE) {
            return free.clone();
        }
        match (self.new_client)() {
            Ok(client) => all.push(ClientPermit::new(client)),
            Err(error) => tracing::warn!(%error, "a further HTTP client did not start"),
        }
        let least = all.iter().min_by_key(|client| client.requests());
        least.cloned().unwrap_or_else(|| ClientPermit::new(self.first.clone()))
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures::future::join_all;
    use http::Response;
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::server::conn::auto::Builder;
    use tokio::net::TcpListener;
    use tokio::sync::Barrier;
    use tokio::time::timeout;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// Starts a server that accepts 100 requests at once on a connection, and answers when so many
    /// requests have arrived.
    async fn server(requests: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let arrived = Arc::new(Barrier::new(requests));
        let connections = TaskTracker::new();
        connections.clone().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let arrived = Arc::clone(&arrived);
                let service = service_fn(move |_: http::Request<Incoming>| {
                    let arrived = Arc::clone(&arrived);
                    async move {
                        arrived.wait().await;
                        Ok::<_, Infallible>(Response::new(String::new()))
                    }
                });
                connections.spawn(async move {
                    let mut protocol = Builder::new(TokioExecutor::new());
                    protocol.http2().max_concurrent_streams(100);
                    let _ = protocol.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        url
    }

    #[tokio::test]
    async fn more_requests_than_a_connection_accepts_are_in_progress_at_once() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = server(350).await;
        let clients =
            Clients::new(|| Client::builder().http2_prior_knowledge().no_proxy().build()).unwrap();
        let request = async || {
            let permit = clients.permit();
            permit.client.get(&url).send().await.unwrap().status()
        };
        let all = join_all((0..350).map(|_| request()));
        let statuses = timeout(Duration::from_mins(1), all).await.expect("no request waits");
        assert!(statuses.iter().all(|status| *status == 200));
        assert_eq!(clients.all.lock().unwrap().len(), 4);
        assert_eq!(clients.permit().requests(), 1, "the others have ended");
        drop(clients.permit());
        assert_eq!(clients.all.lock().unwrap()[0].requests(), 0);
    }
}
