//! A service that is killed and comes back, with its database, its folders and its model.

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
use super::words::UNREADABLE;
use crate::support::final_check::{broken_invariants, repairs};
use crate::support::kept_output::MODEL_KEY;
use crate::support::{Program, TestDatabase, binary, data_dir, database};

/// How long a service may say nothing in the middle of an answer.
const SILENCE: Duration = Duration::from_secs(20);

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
    /// What was mended of a history before it was sent, and should not have had to be.
    mended: Mutex<Vec<String>>,
}

/// What was done in a house.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) messages: AtomicUsize,
    pub(super) answers: AtomicUsize,
    /// Calls that nobody answers until their time runs out.
    pub(super) silences: AtomicUsize,
    pub(super) cancels: AtomicUsize,
    pub(super) interrupts: AtomicUsize,
    pub(super) kills: AtomicUsize,
    pub(super) stops: AtomicUsize,
    pub(super) forks: AtomicUsize,
}

/// One more.
pub(super) fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl House {
    /// A service for these conversations; its own dice have this seed.
    pub(super) async fn open(plans: &[Plan], seed: u64) -> Self {
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
        let mut rng = Rng::with_seed(seed);
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
            client: Client::builder().no_proxy().read_timeout(SILENCE).build().unwrap(),
            options,
            program: Mutex::default(),
            url: RwLock::default(),
            counts: Counts::default(),
            mended: Mutex::default(),
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
            .env("ANTHROPIC_API_KEY", MODEL_KEY);
        let started = Program::serve(command).await;
        *self.url.write().await = Some(started.url.clone());
        *program = Some(started);
    }

    /// Ends the service by this signal and starts it again.
    pub(super) async fn restart(&self, signal: Signal) {
        let mut program = self.program.lock().await;
        self.note_repairs().await;
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

    /// What the model was asked in a session.
    fn asked(&self, session: &str) -> Vec<RecordedRequest> {
        let user = format!(r#""metadata":{}"#, json!({ "user_id": session }));
        let mut requests = self.simulator.requests();
        requests.retain(|request| std::str::from_utf8(&request.body).unwrap().contains(&user));
        requests
    }

    /// The bodies of what the model was asked in a session, but for summaries.
    pub(super) fn requests(&self, session: &str) -> Vec<String> {
        let body = |request: RecordedRequest| String::from_utf8(request.body.to_vec()).unwrap();
        let mut bodies: Vec<String> = self.asked(session).into_iter().map(body).collect();
        bodies.retain(|body| !body.ends_with(r#"],"compaction":{"type":"summarize"}}"#));
        bodies
    }

    /// How often the model's side refused requests of a session for what it cannot read.
    pub(super) fn unread(&self, session: &str) -> usize {
        let refusals = self.asked(session).into_iter().filter_map(|request| request.refusal);
        refusals.filter(|refusal| refusal.ends_with(UNREADABLE)).count()
    }

    /// How often the service was ended.
    pub(super) fn ends(&self) -> usize {
        let Counts { kills, stops, .. } = &self.counts;
        kills.load(Ordering::Relaxed) + stops.load(Ordering::Relaxed)
    }

    /// Takes down what the service has mended since it was started.
    async fn note_repairs(&self) {
        let url = self.url.read().await.clone().unwrap();
        let metrics = self.client.get(format!("{url}/metrics")).send().await.unwrap();
        let repairs = repairs(&metrics.text().await.unwrap());
        self.mended.lock().await.extend(unexplained(&repairs));
    }

    /// What is wrong when all conversations have ended, but for what each knows of itself.
    pub(super) async fn faults(&self) -> Vec<String> {
        let mut refusals = self.simulator.refusals();
        refusals.retain(|refusal| !refusal.ends_with(UNREADABLE));
        self.note_repairs().await;
        let mended = self.mended.lock().await.clone();
        let broken = broken_invariants(&self.database).await;
        let broken = broken.into_iter().map(|(what, place)| format!("not: {what} ({place})"));
        refusals.into_iter().chain(mended).chain(broken).collect()
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
