//! A stand-in for the model: a server that speaks the Anthropic Messages API and Chat
//! Completions, plays a script, and refuses every request that the real API would refuse.
//!
//! It ships with the program for use without an API key, and it is the model in all tests. Which
//! reply a request gets follows from the request alone, so that sessions may run side by side and
//! a repeated request gets the same answer; ids apart, two simulators with one script agree.
//! `docs/simulator.md` describes the script.

mod admission;
mod answer;
mod attempts;
mod betas;
mod cache;
mod chat;
mod context;
mod conversation;
mod deliver;
mod demo;
mod emit;
mod ids;
mod message;
mod models;
mod protocol;
mod record;
mod refusal;
mod render;
mod request;
mod routes;
mod script;
mod signature;
mod summary;
mod validate;
mod words;

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

use attempts::Attempts;
use cache::{Cache, Input};
use record::Recorder;
use request::Ask;

pub use record::RecordedRequest;
pub use script::{
    Block, CallKind, Conversation, Cut, Failure, Otherwise, Reply, Script, ScriptError, Unreadable,
};

/// How long [`Running::stop`] waits for responses that are under way.
const GRACE: Duration = Duration::from_secs(2);

/// How a simulator behaves apart from its script.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many of the latest requests are kept for [`Running::requests`]; 0 keeps none.
    pub record: usize,
    /// The context window. A prompt counts one token for four bytes of its body.
    pub max_input_tokens: u64,
    /// Whether a field that the API does not know is an error, as it is there.
    pub refuse_unknown_fields: bool,
    /// Whether usage tells what a prompt cache would have read and written; else there is none.
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
    /// For tests: as by default, and the last 10,000 requests are kept.
    pub fn recording() -> Self {
        Self { record: 10_000, ..Self::default() }
    }
}

/// Starts simulators.
#[derive(Debug, Clone, Copy)]
pub struct Simulator;

/// A simulator at work. It stops when this is dropped; [`Running::stop`] also waits for it.
#[derive(Debug)]
pub struct Running {
    address: Option<SocketAddr>,
    shared: Arc<Shared>,
    tracker: TaskTracker,
    _stop_on_drop: DropGuard,
}

/// What all requests of one simulator share.
#[derive(Debug)]
pub(crate) struct Shared {
    script: RwLock<Arc<Script>>,
    pub(crate) options: Options,
    pub(crate) recorder: Recorder,
    pub(crate) attempts: Attempts,
    pub(crate) cache: Cache,
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
            attempts: Attempts::default(),
            cache: Cache::default(),
            stop: stop.clone(),
        });
        let address = listener.local_addr().ok();
        let listener = listener.tap_io(|socket| {
            // Without it small events wait for one another; a socket that refuses still works.
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
    /// Where the simulator listens, such as `http://127.0.0.1:41234`.
    pub fn base_url(&self) -> String {
        self.address.map_or_else(String::new, |address| format!("http://{address}"))
    }

    /// The requests so far, oldest first, as far as [`Options::record`] keeps them.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.recorder.list()
    }

    /// Why requests were refused, of those that [`Running::requests`] knows.
    pub fn refusals(&self) -> Vec<String> {
        self.requests().into_iter().filter_map(|request| request.refusal).collect()
    }

    /// Lets time pass, as far as the prompt cache is concerned.
    pub fn skip(&self, time: Duration) {
        self.shared.cache.skip(time);
    }

    /// Plays `script` from the next request on.
    pub fn set_script(&self, script: Script) {
        let mut current = self.shared.script.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(script);
    }

    /// Takes no more connections, ends hanging responses, and waits a little for the others.
    pub async fn stop(self) {
        self.shared.stop.cancel();
        // What is still under way then belongs to a client that will not read or write.
        let _ = timeout(GRACE, self.tracker.wait()).await;
    }
}

impl Shared {
    /// What the input of a request counts as that gets a reply.
    pub(crate) fn input(&self, ask: Ask<'_>, bytes: usize) -> Input {
        if self.options.simulates_cache {
            self.cache.take(ask, bytes)
        } else {
            Input::of_size(bytes)
        }
    }

    fn script(&self) -> Arc<Script> {
        Arc::clone(&self.script.read().unwrap_or_else(PoisonError::into_inner))
    }
}
