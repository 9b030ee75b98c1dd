//! A service that is killed and comes back, with its database, its folders and its model.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, RwLock};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use twostep::simulator::{Options, RecordedRequest, Running, Script, Simulator};

use super::plan::Plan;
use super::words::UNREADABLE;
use crate::support::{Program, TestDatabase, binary, data_dir, database};

/// Where some conversations take place.
pub(super) struct House {
    database: TestDatabase,
    folder: TempDir,
    simulator: Running,
    weather: Weather,
    client: Client,
    /// How the service is started.
    options: Vec<String>,
    program: Mutex<Option<Program>>,
    /// Where it listens, while it does.
    url: RwLock<Option<String>>,
    pub(super) counts: Counts,
}

/// What was done in a house.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) messages: AtomicUsize,
    pub(super) answers: AtomicUsize,
    pub(super) cancels: AtomicUsize,
    pub(super) interrupts: AtomicUsize,
    pub(super) kills: AtomicUsize,
    pub(super) stops: AtomicUsize,
}

/// One more.
pub(super) fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl House {
    /// A service for these conversations.
    pub(super) async fn open(plans: &[Plan]) -> Self {
        let conversations: Vec<_> =
            plans.iter().flat_map(|plan| &plan.moves).map(|one| &one.script).collect();
        let unreadable = json!({ "type": "document", "contains": "(unreadable)",
            "message": UNREADABLE });
        let script = json!({ "conversations": conversations, "otherwise": "refuse",
            "unreadable": [unreadable] });
        // A second test of the same process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let script = Script::from_json(&script.to_string()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut rng = Rng::with_seed(plans.first().map_or(0, |plan| plan.seed));
        let mut options: Vec<String> = Vec::new();
        match rng.u8(..4) {
            0 => options.push("--prompt-cache=false".to_owned()),
            1 => options.push("--prompt-cache-ttl=1h".to_owned()),
            _ => {}
        }
        options.push(format!("--drain-seconds={}", rng.u8(..2)));
        let house = Self {
            database: database().await,
            folder: data_dir(),
            simulator: Simulator::start(listener, script, Options::recording()),
            weather: Weather::start().await,
            client: Client::builder().no_proxy().build().unwrap(),
            options,
            program: Mutex::default(),
            url: RwLock::default(),
            counts: Counts::default(),
        };
        house.start(&mut *house.program.lock().await).await;
        house
    }

    async fn start(&self, program: &mut Option<Program>) {
        let mut command = binary(&["serve", "--bind", "127.0.0.1:0"]);
        command
            .arg("--data-dir")
            .arg(self.folder.path())
            .args(["--anthropic-base-url", &self.simulator.base_url()])
            .args(["--weather-url", &self.weather.url, "--geocoding-url", &self.weather.url])
            .args(["--permission-mode", "bypass", "--allow-bypass", "--approval-timeout", "2"])
            .args(["--server-tools", "web_search"])
            .args(&self.options)
            .env("DATABASE_URL", self.database.url())
            .env("ANTHROPIC_API_KEY", "test-key");
        let started = Program::serve(command).await;
        *self.url.write().await = Some(started.url.clone());
        *program = Some(started);
    }

    /// Ends the service by this signal and starts it again.
    pub(super) async fn restart(&self, signal: Signal) {
        let mut program = self.program.lock().await;
        *self.url.write().await = None;
        if let Some(old) = program.take() {
            old.end_by(signal).await;
        }
        self.start(&mut program).await;
    }

    /// Sends a request until a service answers it.
    pub(super) async fn send(&self, request: impl Fn(&Client, &str) -> RequestBuilder) -> Response {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let url = self.url.read().await.clone();
            if let Some(url) = url {
                match request(&self.client, &url).send().await {
                    Ok(response) if response.status() != StatusCode::SERVICE_UNAVAILABLE => {
                        return response;
                    }
                    Ok(_) | Err(_) => {}
                }
            }
            assert!(Instant::now() < deadline, "no service answered");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the model was asked in a session, but for summaries.
    pub(super) fn requests(&self, session: &str) -> Vec<RecordedRequest> {
        let user = json!({ "user_id": session }).to_string();
        let mut requests = self.simulator.requests();
        requests.retain(|request| {
            let body = std::str::from_utf8(&request.body).unwrap();
            body.contains(&format!(r#""metadata":{user}"#))
                && !body.ends_with(r#"],"compaction":{"type":"summarize"}}"#)
        });
        requests
    }

    /// Why the model's side refused requests of any session, but for what it cannot read.
    pub(super) fn refusals(&self) -> Vec<String> {
        let mut refusals = self.simulator.refusals();
        refusals.retain(|refusal| !refusal.ends_with(UNREADABLE));
        refusals
    }

    /// Stops the service in order.
    pub(super) async fn close(self) {
        if let Some(program) = self.program.into_inner() {
            program.terminate().await;
        }
    }
}

/// A server of the weather that takes a while, and then says nothing: a tool that runs long enough
/// to be stopped.
struct Weather {
    url: String,
    task: AbortHandle,
}

impl Weather {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    sleep(Duration::from_millis(200)).await;
                    drop(socket);
                });
            }
        });
        Self { url, task: task.abort_handle() }
    }
}

impl Drop for Weather {
    fn drop(&mut self) {
        self.task.abort();
    }
}
