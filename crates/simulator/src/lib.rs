//! A simulator of the model: a server for the Anthropic Messages API and for Chat Completions that
//! plays a script and refuses every request that the real API refuses.
//!
//! The service uses it when no API key is set, and all tests use it as the model. The reply depends
//! on the request alone, so sessions can run side by side, and a repeated request gets the same
//! reply. Two simulators with one script return the same replies, except for ids.
//! `docs/simulator.md` describes the script.

mod betas;
mod cache;
mod chat;
pub mod cloud;
mod containers;
mod context;
mod deferred;
mod demo;
mod emit;
mod headers;
mod ids;
mod message;
mod models;
mod phrases;
mod protocol;
mod record;
mod refusal;
mod render;
mod repetitions;
mod request;
mod respond;
mod response_body;
mod responses;
mod routes;
mod script;
mod selection;
mod signature;
mod summary;
mod validate;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use cache::{Cache, Input};
use cloud::Tokens;
use containers::Containers;
use record::Recorder;
use repetitions::Repetitions;
use request::ApiRequest;

pub use record::RecordedRequest;
pub use script::{
    Block, CallKind, ContainerReport, Conversation, Cut, Failure, Otherwise, Reply, Script,
    ScriptError, Unreadable,
};

/// Maximum time that [`Running::stop`] waits for open responses.
const GRACE: Duration = Duration::from_secs(2);

/// The options of a simulator, apart from its script.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Number of recent requests to keep for [`Running::requests`]; 0 keeps none.
    pub record: usize,
    /// The context window in tokens. Four bytes of the body count as one token.
    pub max_input_tokens: u64,
    /// Refuse fields that the API does not know, as the API does.
    pub refuse_unknown_fields: bool,
    /// Report the tokens that a prompt cache would have read and written. Without it, replies
    /// report no cache.
    pub simulates_cache: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            record: 0,
            max_input_tokens: 1_000_000,
            refuse_unknown_fields: true,
            simulates_cache: false,
        }
    }
}

impl Options {
    /// The options for tests: the defaults, and the last 10,000 requests are kept.
    pub fn recording() -> Self {
        Self { record: 10_000, ..Self::default() }
    }
}

/// Starts simulators.
#[derive(Debug, Clone, Copy)]
pub struct Simulator;

/// A running simulator. Dropping it stops it; [`Running::stop`] also waits for open responses.
#[derive(Debug)]
pub struct Running {
    address: Option<SocketAddr>,
    shared: Arc<Shared>,
    tracker: TaskTracker,
    _stop_on_drop: DropGuard,
}

/// The state that all requests of one simulator share.
#[derive(Debug)]
pub(crate) struct Shared {
    script: RwLock<Arc<Script>>,
    pub(crate) options: Options,
    pub(crate) recorder: Recorder,
    pub(crate) repetitions: Repetitions,
    pub(crate) cache: Cache,
    pub(crate) containers: Containers,
    pub(crate) tokens: Tokens,
    pub(crate) stop: CancellationToken,
}

impl Simulator {
    /// Serves `script` on `listener` until the result is stopped or dropped. Needs a Tokio runtime.
    pub fn start(listener: TcpListener, script: Script, options: Options) -> Running {
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            script: RwLock::new(Arc::new(script)),
            options,
            recorder: Recorder::new(options.record),
            repetitions: Repetitions::default(),
            cache: Cache::default(),
            containers: Containers::default(),
            tokens: Tokens::default(),
            stop: stop.clone(),
        });
        let address = listener.local_addr().ok();
        let listener = listener.tap_io(|socket| {
            // Nagle's algorithm would delay small events. A socket without the option still works.
            let _ = socket.set_nodelay(true);
        });
        let server = axum::serve(listener, routes::router(Arc::clone(&shared)))
            .with_graceful_shutdown(stop.clone().cancelled_owned());
        let tracker = TaskTracker::new();
        tracker.spawn(server.into_future());
        tracker.close();
        Running { address, shared, tracker, _stop_on_drop: stop.drop_guard() }
    }
}

impl Running {
    /// The URL of the simulator, such as `http://127.0.0.1:41234`.
    pub fn base_url(&self) -> String {
        self.address.map_or_else(String::new, |address| format!("http://{address}"))
    }

    /// The recorded requests, oldest first; see [`Options::record`].
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.recorder.list()
    }

    /// The reasons of all refused requests in [`Running::requests`].
    pub fn refusals(&self) -> Vec<String> {
        self.requests().into_iter().filter_map(|request| request.refusal).collect()
    }

    /// Advances the clock of the prompt cache.
    pub fn advance_cache_clock(&self, time: Duration) {
        self.shared.cache.advance_clock(time);
    }

    /// The number of access tokens that the token endpoint and the metadata server have issued.
    pub fn issued_tokens(&self) -> u64 {
        self.shared.tokens.issued()
    }

    /// Refuses the access tokens that were issued so far.
    pub fn revoke_tokens(&self) {
        self.shared.tokens.revoke();
    }

    /// Sets the lifetime of the access tokens that are issued from now on.
    pub fn set_token_lifetime(&self, lifetime: Duration) {
        self.shared.tokens.set_lifetime(lifetime);
    }

    /// Plays `script` from the next request on.
    pub fn set_script(&self, script: Script) {
        let mut current = self.shared.script.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(script);
    }

    /// Stops listening, ends hanging responses, and waits a short time for the others.
    pub async fn stop(self) {
        self.shared.stop.cancel();
        // A response that is still open belongs to a client that does not read or write.
        let _ = timeout(GRACE, self.tracker.wait()).await;
    }
}

impl Shared {
    /// The input tokens of a request that gets a reply.
    pub(crate) fn input(&self, request: ApiRequest<'_>, bytes: usize) -> Input {
        if self.options.simulates_cache {
            self.cache.take(request, bytes)
        } else {
            Input::of_size(bytes)
        }
    }

    fn script(&self) -> Arc<Script> {
        Arc::clone(&self.script.read().unwrap_or_else(PoisonError::into_inner))
    }
}
