//! A service of its own for every test, and a client that speaks to it.

mod answers;
pub(crate) mod at_rest;
mod beside;
mod fill;
mod identity;
mod keys;
mod leftovers;
pub(crate) mod media;
mod model_server;
mod pages;
#[path = "../../support/postgres.rs"]
mod postgres;
mod program;
mod promised;
mod proxy;
mod raw;
mod refusal;
pub(crate) mod seen;
mod sse;
mod tools;
pub(crate) mod upstream;
mod verification;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use twostep::app::Application;
use twostep::config::{Config, Database, Listen, ModelSource, Serve, Work};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;
use twostep::domain::permission::PermissionMode;
use twostep::domain::price::Prices;
use twostep::domain::prompt_cache::CacheTtl;
use twostep::domain::provider::Provider;
use twostep::domain::run::{Limits, OnBusy};
use twostep::http::{
    Defaults, Forwarding, KEEP_ALIVE_EVERY, MAX_MESSAGE, ModelRules, OperatorAgents,
    Options as HttpOptions, Timeouts,
};
use twostep::outbound::AllowedHosts;
use twostep::simulator::{Options, Running, Script, Simulator};
use twostep::tokens::Issuer;
use twostep::tools::builtin::bash::Bash;
use twostep::tools::mcp::ServerSettings;
use twostep::tools::policy::OperatorPolicy;
use twostep::tools::sandbox::{Sandbox, Setting};
use twostep::tools::workspace::Roots;
use twostep::tools::{Tool, builtin};

pub(crate) use answers::{BELL, asks, asks_within, calls_as, pending};
pub(crate) use fill::fill_with_events;
pub(crate) use identity::{
    AUDIENCE, Identity, Manner, Signer, client_bearing, encoded, seconds_from_now,
    signed_with_secret, trusting, unsigned,
};
pub(crate) use keys::{client_with, keys_needed};
pub(crate) use leftovers::tables_with;
pub(crate) use postgres::{TestDatabase, database};
pub(crate) use program::{
    PROGRAM, Program, binary, binary_at, binary_logging_to, binary_of_few_files, data_dir, outcome,
};
use promised::assert_promised;
pub(crate) use proxy::Proxy;
pub(crate) use raw::{RawStream, exchange};
pub(crate) use refusal::{Refusal, assert_refused, invalid, raw, refusal};
pub(crate) use sse::{EventStream, Received, durable};
pub(crate) use tools::Endless;
pub(crate) use upstream::{Upstream, asked};

/// The system prompt of test sessions.
pub(crate) const SYSTEM: &str = "You are the test desk. Be brief.";

/// A running service with everything it stands on.
pub(crate) struct TestApp {
    pub(crate) address: SocketAddr,
    /// One with the key that the service needs, if it needs any.
    pub(crate) client: Client,
    /// One without.
    stranger: Client,
    pub(crate) simulator: Running,
    pub(crate) database: TestDatabase,
    pub(crate) folder: TempDir,
    _state: TempDir,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

/// What a test changes of the usual service.
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) options: builtin::Options,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) tool_servers: Vec<ServerSettings>,
    pub(crate) workspace_roots: Vec<PathBuf>,
    pub(crate) bash: Setting,
    pub(crate) limits: Limits,
    pub(crate) permissions: Option<OperatorPolicy>,
    pub(crate) prices: Prices,
    pub(crate) model_rules: ModelRules,
    pub(crate) refresh_models: bool,
    pub(crate) model: Option<&'static str>,
    /// None: five minutes.
    pub(crate) prompt_cache: Option<CacheTtl>,
    /// Whether usage tells what a prompt cache would have read and written.
    pub(crate) simulates_cache: bool,
    /// The model's window, if it is to be a small one.
    pub(crate) window: Option<u64>,
    pub(crate) provider: Provider,
    pub(crate) slots: Option<usize>,
    pub(crate) keep_alive_every: Option<Duration>,
    pub(crate) on_busy: OnBusy,
    pub(crate) max_queued: Option<u32>,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_message: Option<usize>,
    pub(crate) max_streams: Option<usize>,
    pub(crate) max_streams_per_key: Option<usize>,
    /// 0: none.
    pub(crate) rate_limit: u32,
    pub(crate) cors_origins: Vec<&'static str>,
    /// None: any.
    pub(crate) allowed_hosts: Option<Vec<&'static str>>,
    pub(crate) model_idle_timeout: Option<Duration>,
    /// None: what runs is let go at once.
    pub(crate) drain_for: Duration,
    /// Another way to the database than the direct one.
    pub(crate) database: Option<PgConnectOptions>,
    pub(crate) needs_keys: bool,
    /// Whose tokens are good as well.
    pub(crate) tokens: Option<Arc<Issuer>>,
    /// Where webhooks may be.
    pub(crate) webhook_hosts: AllowedHosts,
    /// The operator's agents.
    pub(crate) agents: OperatorAgents,
    pub(crate) forwarding: Forwarding,
    pub(crate) no_api: bool,
    pub(crate) no_worker: bool,
    /// The collector of traces.
    pub(crate) traces: Option<String>,
    /// Whether each session works in a folder of its own.
    pub(crate) own_folders: bool,
}

impl TestApp {
    /// A service whose model follows this script.
    pub(crate) async fn start(script: Value) -> Self {
        Self::start_with(script, Setup::default()).await
    }

    pub(crate) async fn start_with(script: Value, setup: Setup) -> Self {
        // Boxed, because it is large and every test has one.
        Box::pin(Self::on(script, setup, database().await, TempDir::new().unwrap())).await
    }

    pub(crate) async fn on(
        script: Value,
        setup: Setup,
        database: TestDatabase,
        folder: TempDir,
    ) -> Self {
        seen::log();
        // A second test of the same process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let script = Script::from_json(&script.to_string()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut options =
            Options { simulates_cache: setup.simulates_cache, ..Options::recording() };
        options.max_input_tokens = setup.window.unwrap_or(options.max_input_tokens);
        let simulator = Simulator::start(listener, script, options);
        let state = TempDir::new().unwrap();
        let key = if setup.needs_keys {
            Some(database.key(TenantId::DEFAULT, Scope::Write).await)
        } else {
            None
        };
        let app =
            Application::build(config(&simulator, &database, (folder.path(), state.path()), setup))
                .await
                .unwrap();
        let stop = CancellationToken::new();
        Self {
            address: app.address().unwrap(),
            client: client_with(key.as_ref()),
            stranger: client_with(None),
            task: TaskTracker::new().spawn(app.run_until_stopped(stop.clone())),
            simulator,
            database,
            folder,
            _state: state,
            stop,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.url(path))
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(self.url(path))
    }

    /// A new session with the defaults.
    pub(crate) async fn session(&self) -> Session<'_> {
        self.session_with(json!({})).await
    }

    pub(crate) async fn session_with(&self, body: Value) -> Session<'_> {
        let response = self.post("/v1/sessions").json(&body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        let session: Value = response.json().await.unwrap();
        Session { app: self, id: session["id"].as_str().unwrap().to_owned() }
    }

    /// What the model was sent.
    pub(crate) fn upstream(&self) -> Upstream {
        Upstream::of(&self.simulator)
    }

    /// A file in the folder that all test sessions work in.
    pub(crate) fn write_file(&self, name: &str, content: &str) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    /// Stops the service without looking at what it left.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Checks what must hold after every test, and stops the service: the model refused nothing,
    /// each request was a byte prefix of the next, no history needed a repair, and the database
    /// keeps its invariants, by two witnesses that know nothing of each other.
    pub(crate) async fn finish(self) {
        assert_eq!(self.simulator.refusals(), Vec::<String>::new());
        assert_eq!(self.repairs().await, []);
        self.upstream().assert_prefixes();
        let broken = self.broken_invariants().await;
        assert_eq!(broken, Vec::<(String, String)>::new());
        assert_eq!(self.findings().await, Vec::<String>::new());
        self.stop().await;
    }

    /// Stops a service that had to repair a history, in these ways and no others: the model refused
    /// nothing all the same.
    pub(crate) async fn finish_repaired(self, kinds: &[(&str, u64)]) {
        assert_eq!(self.simulator.refusals(), Vec::<String>::new());
        let mut expected: Vec<(String, u64)> =
            kinds.iter().map(|(kind, times)| ((*kind).to_owned(), *times)).collect();
        expected.sort();
        assert_eq!(self.repairs().await, expected);
        self.stop().await;
    }

    /// Stops a service some of whose requests began otherwise than the ones before, on purpose:
    /// the model refused these and no others, and all else holds.
    pub(crate) async fn finish_refused(self, refusals: &[&str]) {
        assert_eq!(self.simulator.refusals(), refusals);
        assert_eq!(self.repairs().await, []);
        assert_eq!(self.broken_invariants().await, Vec::<(String, String)>::new());
        assert_eq!(self.findings().await, Vec::<String>::new());
        self.stop().await;
    }

    /// The repairs that the service has counted, by kind.
    async fn repairs(&self) -> Vec<(String, u64)> {
        let text = self.get("/metrics").send().await.unwrap().text().await.unwrap();
        seen::answer(&text);
        at_rest::repairs(&text)
    }

    pub(crate) async fn broken_invariants(&self) -> Vec<(String, String)> {
        at_rest::broken_invariants(&self.database).await
    }
}

/// Most tests are about other things than who decides on calls.
fn everything_runs() -> OperatorPolicy {
    let (default_mode, allows_bypass) = (PermissionMode::Bypass, true);
    OperatorPolicy { default_mode, allows_bypass, ..OperatorPolicy::default() }
}

fn config(
    simulator: &Running,
    database: &TestDatabase,
    (folder, state): (&Path, &Path),
    setup: Setup,
) -> Config {
    let sandbox = Sandbox::with_helper(setup.bash, env!("CARGO_BIN_EXE_twostep").into());
    let bash = sandbox.map(|sandbox| Bash::new(sandbox, Duration::from_mins(2)));
    let options = builtin::Options { bash, ..setup.options };
    let mut tools = builtin::all(&options);
    // A tool of a test may take the place of one of ours.
    tools.retain(|tool| setup.tools.iter().all(|other| other.name() != tool.name()));
    tools.extend(setup.tools);
    let idle = setup.model_idle_timeout.unwrap_or(Duration::from_secs(10));
    let work = Work {
        model: ModelSource::Server(model_server::of(simulator, setup.provider, idle)),
        model_idle_timeout: idle,
        prompt_cache: Some(setup.prompt_cache.unwrap_or_default()),
        slots: setup.slots.unwrap_or(16),
        drain_for: setup.drain_for,
        webhook_hosts: setup.webhook_hosts.clone(),
    };
    let serve = Serve {
        bind: "127.0.0.1:0".parse().unwrap(),
        defaults: Defaults {
            model: setup.model.unwrap_or("simulator").to_owned(),
            max_tokens: 1000,
            system: SYSTEM.to_owned(),
            limits: setup.limits,
            prices: setup.prices,
            // Commands of the basic level work in no folder that others use.
            workspace: (setup.bash != Setting::Basic && !setup.own_folders)
                .then(|| folder.canonicalize().unwrap().to_str().unwrap().to_owned()),
            workspace_roots: Roots::new(setup.workspace_roots),
            tools: None,
            model_rules: setup.model_rules,
            agents: setup.agents,
        },
        http: HttpOptions {
            needs_keys: setup.needs_keys,
            tokens: setup.tokens,
            webhook_hosts: Arc::new(setup.webhook_hosts),
            keep_alive_every: setup.keep_alive_every.unwrap_or(KEEP_ALIVE_EVERY),
            on_busy: setup.on_busy,
            max_queued: setup.max_queued.unwrap_or(1000),
            timeouts: setup.timeouts,
            max_message: setup.max_message.unwrap_or(MAX_MESSAGE),
            max_streams: setup.max_streams.unwrap_or(10_000),
            max_streams_per_key: setup.max_streams_per_key.unwrap_or(200),
            rate_limit: setup.rate_limit,
            browser_policy: pages::of(
                setup.needs_keys,
                &setup.cors_origins,
                setup.allowed_hosts.as_deref(),
            ),
        },
        forwarding: setup.forwarding,
        refresh_models: setup.refresh_models,
    };
    Config {
        metrics: None,
        listen: if setup.no_api { Listen::Nowhere } else { Listen::Api(Box::new(serve)) },
        database: Database::Server(Box::new(setup.database.unwrap_or_else(|| database.options()))),
        work: (!setup.no_worker).then_some(work),
        workspaces: folder.join("workspaces"),
        state_dir: state.to_owned(),
        tools,
        tool_servers: setup.tool_servers,
        options,
        traces: setup.traces.map(|url| url.parse().unwrap()),
        permissions: setup.permissions.unwrap_or_else(everything_runs),
    }
}

/// A session of a running service.
pub(crate) struct Session<'a> {
    pub(crate) app: &'a TestApp,
    pub(crate) id: String,
}

impl Session<'_> {
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id)
    }

    /// A post of a message, to be completed by headers.
    pub(crate) fn message(&self, body: &Value) -> RequestBuilder {
        self.app.post(&self.path("/messages")).json(body)
    }

    /// Posts a text and waits for the settled run.
    pub(crate) async fn ask(&self, text: &str) -> Value {
        self.ask_with(json!({ "content": text })).await
    }

    pub(crate) async fn ask_with(&self, body: Value) -> Value {
        let response = self.message(&body).header("prefer", "wait=60").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "the run did not settle");
        response.json().await.unwrap()
    }

    /// Posts a text and returns at once, with the accepted run.
    pub(crate) async fn post(&self, body: Value) -> Value {
        let response = self.message(&body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        response.json().await.unwrap()
    }

    /// Posts a text and streams its run.
    pub(crate) async fn stream(&self, text: &str) -> EventStream {
        let request = self.message(&json!({ "content": text }));
        EventStream::new(request.header("accept", "text/event-stream").send().await.unwrap())
    }

    /// All items of the history.
    pub(crate) async fn history(&self) -> Vec<Value> {
        self.list("/messages").await
    }

    /// All events.
    pub(crate) async fn events(&self) -> Vec<Value> {
        self.list("/events").await
    }

    async fn list(&self, resource: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut after = "0".to_owned();
        loop {
            let path = self.path(&format!("{resource}?limit=200&after={after}"));
            let mut page: Value = self.app.get(&path).send().await.unwrap().json().await.unwrap();
            all.append(page["data"].as_array_mut().unwrap());
            match page["next_cursor"].as_str() {
                Some(cursor) => cursor.clone_into(&mut after),
                None => return all,
            }
        }
    }

    /// Asks for a run to be cancelled.
    pub(crate) async fn cancel(&self, run: &Value) {
        let path = self.path(&format!("/runs/{}/cancel", run["id"].as_str().unwrap()));
        let response = self.app.post(&path).send().await.unwrap();
        assert!(response.status().is_success());
    }

    /// Opens a stream, after this event if one is named.
    pub(crate) async fn open(&self, path: &str, last: Option<i64>) -> EventStream {
        let mut request = self.app.get(path);
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        EventStream::new(request.send().await.unwrap())
    }

    /// The path of a run's stream.
    pub(crate) fn run_stream(&self, run: &Value) -> String {
        self.path(&format!("/runs/{}/stream", run["id"].as_str().unwrap()))
    }

    /// A run as it stands now.
    pub(crate) async fn run(&self, run: &Value) -> Value {
        let path = self.path(&format!("/runs/{}", run["id"].as_str().unwrap()));
        let response = self.app.get(&path).send().await.unwrap();
        response.json().await.unwrap()
    }

    /// Waits until an event of this type is stored for a run.
    pub(crate) async fn reached(&self, run: &Value, kind: &str) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        let is_there = |event: &Value| event["type"] == kind && event["run_id"] == run["id"];
        while !self.events().await.iter().any(is_there) {
            assert!(tokio::time::Instant::now() < deadline, "there was no {kind}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a run has settled.
    pub(crate) async fn settled(&self, run: &Value) -> Value {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let run = self.run(run).await;
            if matches!(run["status"].as_str().unwrap(), "completed" | "failed" | "cancelled") {
                return run;
            }
            assert!(tokio::time::Instant::now() < deadline, "the run did not settle: {run}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A script in which every message gets these replies, one a round.
pub(crate) fn replies(replies: &[Value]) -> Value {
    json!({ "conversations": [{ "replies": replies }], "otherwise": "refuse" })
}

/// A script whose first message hangs until somebody stops it, and whose others are answered.
pub(crate) fn hangs_first() -> Value {
    json!({ "conversations": [
        { "when": "hang", "replies": [{ "content": [{ "type": "text", "text": "Well" }],
                                        "hang_after": 4 }] },
        { "replies": [says("You said {{user}}.")] },
    ], "otherwise": "refuse" })
}

/// A reply that says a part of this and then nothing more.
pub(crate) fn stops_short(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "chunk": 5, "hang_after": 5 })
}

/// A reply of one text.
pub(crate) fn says(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// A reply of one tool call.
#[expect(clippy::needless_pass_by_value, reason = "callers write the input in place")]
pub(crate) fn calls(name: &str, input: Value) -> Value {
    json!({ "content": [{ "type": "tool_use", "name": name, "input": input }] })
}

/// The body of a response, which must be a problem of this status and code.
pub(crate) async fn problem(response: Response, status: u16, code: &str) -> Value {
    assert_eq!(response.status().as_u16(), status);
    assert_promised(response.url().path(), status, code);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let request_id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    let problem: Value = response.json().await.unwrap();
    seen::answer(&problem.to_string());
    assert_eq!(problem["status"], status);
    assert_eq!(problem["code"], code);
    assert_eq!(problem["request_id"], request_id);
    problem
}

impl TestApp {
    /// The same database and folder under a new service, with another script.
    pub(crate) async fn restarted(self, script: Value) -> Self {
        self.restarted_with(script, Setup::default()).await
    }

    pub(crate) async fn restarted_with(self, script: Value, setup: Setup) -> Self {
        assert_eq!(self.simulator.refusals(), Vec::<String>::new());
        self.replaced_by(script, setup).await
    }

    /// As [`TestApp::restarted`], after the test has looked at what the model refused.
    pub(crate) async fn restarted_after_refusals(self, script: Value) -> Self {
        self.replaced_by(script, Setup::default()).await
    }

    async fn replaced_by(self, script: Value, setup: Setup) -> Self {
        let Self { database, folder, stop, task, .. } = self;
        stop.cancel();
        task.await.unwrap().unwrap();
        Box::pin(Self::on(script, setup, database, folder)).await
    }

    /// A session that was made by an earlier service.
    pub(crate) fn session_again(&self, id: &str) -> Session<'_> {
        Session { app: self, id: id.to_owned() }
    }
}
