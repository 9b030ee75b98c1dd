//! A service that is killed and restarted, with its database, its data folder and its model.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use rustix::process::Signal;
use serde_json::json;
use simulator::{Options, RecordedRequest, Running, Script, Simulator};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, RwLock};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::check::repairs::unexplained;
use super::plan::Plan;
use super::texts::UNREADABLE;
use crate::support::final_check::{broken_invariants, repairs};
use crate::support::kept_output::MODEL_KEY;
use crate::support::{Program, TestDatabase, binary, data_dir, database};

/// The maximum time without data in the middle of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// The service of several conversations, with everything that survives its restarts.
pub(super) struct TestService {
    database: TestDatabase,
    folder: TempDir,
    simulator: Running,
    weather: Weather,
    client: Client,
    /// The random options of the service.
    options: Vec<String>,
    program: Mutex<Option<Program>>,
    /// The URL of the service while it is running.
    url: RwLock<Option<String>>,
    pub(super) counts: Counts,
    /// Repairs of histories that nothing explains.
    unexpected_repairs: Mutex<Vec<String>>,
}

/// The number of actions of each kind.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) messages: AtomicUsize,
    pub(super) answers: AtomicUsize,
    /// Calls that are not answered before their deadline.
    pub(super) unanswered: AtomicUsize,
    pub(super) cancels: AtomicUsize,
    pub(super) interrupts: AtomicUsize,
    pub(super) kills: AtomicUsize,
    pub(super) stops: AtomicUsize,
    pub(super) forks: AtomicUsize,
}

/// Increments a counter.
pub(super) fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl TestService {
    /// Starts a service for these conversations. The seed determines its options.
    pub(super) async fn open(plans: &[Plan], seed: u64) -> Self {
        let conversations: Vec<_> =
            plans.iter().flat_map(|plan| &plan.messages).map(|message| &message.script).collect();
        let unreadable = json!({ "type": "document", "contains": "(unreadable)",
            "message": UNREADABLE });
        let script = json!({ "conversations": conversations, "otherwise": "refuse",
            "unreadable": [unreadable] });
        // Fails when another test of this process has installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let script = Script::from_json(&script.to_string()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut rng = Rng::with_seed(seed);
        let mut options: Vec<String> = Vec::new();
        match rng.u8(..4) {
            0 => options.push("--prompt-cache=false".to_owned()),
            1 => options.push("--prompt-cache-ttl=1h".to_owned()),
            _ => {}
        }
        options.push(format!("--drain-seconds={}", rng.u8(..2)));
        let service = Self {
            database: database().await,
            folder: data_dir(),
            simulator: Simulator::start(listener, script, Options::recording()),
            weather: Weather::start().await,
            client: Client::builder().no_proxy().read_timeout(READ_TIMEOUT).build().unwrap(),
            options,
            program: Mutex::default(),
            url: RwLock::default(),
            counts: Counts::default(),
            unexpected_repairs: Mutex::default(),
        };
        service.start(&mut *service.program.lock().await).await;
        service
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
            .env("ANTHROPIC_API_KEY", MODEL_KEY);
        let started = Program::serve(command).await;
        *self.url.write().await = Some(started.url.clone());
        *program = Some(started);
    }

    /// Stops the service with this signal and starts it again.
    pub(super) async fn restart(&self, signal: Signal) {
        let mut program = self.program.lock().await;
        self.record_repairs().await;
        *self.url.write().await = None;
        if let Some(old) = program.take() {
            old.end_by(signal).await;
        }
        self.start(&mut program).await;
    }

    /// Sends a request, repeatedly if the service is unavailable.
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
            assert!(Instant::now() < deadline, "the service is unavailable");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// All requests of a session to the model.
    fn recorded_requests(&self, session: &str) -> Vec<RecordedRequest> {
        let user = format!(r#""metadata":{}"#, json!({ "user_id": session }));
        let mut requests = self.simulator.requests();
        requests.retain(|request| std::str::from_utf8(&request.body).unwrap().contains(&user));
        requests
    }

    /// The bodies of the requests of a session, except those for summaries.
    pub(super) fn requests(&self, session: &str) -> Vec<String> {
        let body = |request: RecordedRequest| String::from_utf8(request.body.to_vec()).unwrap();
        let mut bodies: Vec<String> =
            self.recorded_requests(session).into_iter().map(body).collect();
        bodies.retain(|body| !body.ends_with(r#"],"compaction":{"type":"summarize"}}"#));
        bodies
    }

    /// The number of requests of a session that the model refused because of an unreadable block.
    pub(super) fn unreadable_refusals(&self, session: &str) -> usize {
        let refusals =
            self.recorded_requests(session).into_iter().filter_map(|request| request.refusal);
        refusals.filter(|refusal| refusal.ends_with(UNREADABLE)).count()
    }

    /// The number of restarts of the service.
    pub(super) fn restarts(&self) -> usize {
        let Counts { kills, stops, .. } = &self.counts;
        kills.load(Ordering::Relaxed) + stops.load(Ordering::Relaxed)
    }

    /// Records the unexplained repairs of the current process.
    async fn record_repairs(&self) {
        let url = self.url.read().await.clone().unwrap();
        let metrics = self.client.get(format!("{url}/metrics")).send().await.unwrap();
        let repairs = repairs(&metrics.text().await.unwrap());
        self.unexpected_repairs.lock().await.extend(unexplained(&repairs));
    }

    /// The faults of the service after all conversations, without those of each conversation.
    pub(super) async fn faults(&self) -> Vec<String> {
        let mut refusals = self.simulator.refusals();
        refusals.retain(|refusal| !refusal.ends_with(UNREADABLE));
        self.record_repairs().await;
        let unexpected_repairs = self.unexpected_repairs.lock().await.clone();
        let broken = broken_invariants(&self.database).await;
        let broken = broken
            .into_iter()
            .map(|(name, location)| format!("invariant violated: {name} ({location})"));
        refusals.into_iter().chain(unexpected_repairs).chain(broken).collect()
    }

    /// Shuts the service down.
    pub(super) async fn close(self) {
        if let Some(program) = self.program.into_inner() {
            program.terminate().await;
        }
    }
}

/// A stub of the weather service that closes each connection after 200 ms. A call of its tool takes
/// long enough to be cancelled.
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
