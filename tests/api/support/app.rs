//! A service under test.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use simulator::{Options, Running, Script, Simulator};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use twostep::app::Application;
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use super::final_check::Ending;
use super::machine::HUNG;
use super::setup::config;
use super::{Session, Setup, TestDatabase, Upstream, client_with, database, kept_output};

/// A running service with a database, a simulated model and a workspace of its own.
///
/// When the test ends, the service is stopped and checked: see [`Ending`]. The check needs a test
/// with `#[tokio::test(flavor = "multi_thread")]`, because it blocks the thread of the test while
/// the service and the servers of the test continue to run.
pub(crate) struct TestApp {
    pub(crate) address: SocketAddr,
    /// A client with an API key, if the service requires one.
    pub(crate) client: Client,
    /// A client without an API key.
    pub(super) keyless: Client,
    pub(crate) simulator: Running,
    pub(crate) database: Arc<TestDatabase>,
    pub(crate) folder: Arc<TempDir>,
    _state: TempDir,
    pub(super) stop: CancellationToken,
    /// `None` when the service has been stopped.
    pub(super) task: Option<JoinHandle<anyhow::Result<()>>>,
    pub(super) ending: Ending,
}

impl TestApp {
    /// Starts a service whose model plays this script.
    pub(crate) async fn start(script: Value) -> Self {
        Self::start_with(script, Setup::default()).await
    }

    /// Starts a service with these settings.
    pub(crate) async fn start_with(script: Value, setup: Setup) -> Self {
        // Boxed, because the future is large and every test has one.
        Box::pin(Self::on(script, setup, database().await, TempDir::new().unwrap())).await
    }

    /// Starts a service on this database and workspace.
    pub(crate) async fn on(
        script: Value,
        setup: Setup,
        database: impl Into<Arc<TestDatabase>>,
        folder: impl Into<Arc<TempDir>>,
    ) -> Self {
        let (database, folder) = (database.into(), folder.into());
        kept_output::log();
        // An earlier test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let simulator = simulator(&script, &setup).await;
        let state = TempDir::new().unwrap();
        let key = if setup.needs_keys {
            Some(database.key(TenantId::DEFAULT, Scope::Write).await)
        } else {
            None
        };
        let folders: (&Path, &Path) = (folder.path(), state.path());
        let app = Application::build(config(&simulator, &database, folders, setup)).await.unwrap();
        let stop = CancellationToken::new();
        Self {
            address: app.address().unwrap(),
            client: client_with(key.as_ref()),
            keyless: client_with(None),
            task: Some(TaskTracker::new().spawn(app.run_until_stopped(stop.clone()))),
            simulator,
            database,
            folder,
            _state: state,
            stop,
            ending: Ending::Sound,
        }
    }

    /// The URL of a path of the service.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A GET request to the service.
    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.url(path))
    }

    /// A POST request to the service.
    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(self.url(path))
    }

    /// Creates a session with default settings.
    pub(crate) async fn session(&self) -> Session<'_> {
        self.session_with(json!({})).await
    }

    /// Creates a session with this body.
    pub(crate) async fn session_with(&self, body: Value) -> Session<'_> {
        let response = self.post("/v1/sessions").json(&body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        let session: Value = response.json().await.unwrap();
        Session { app: self, id: session["id"].as_str().unwrap().to_owned() }
    }

    /// A session that an earlier service created in the same database.
    pub(crate) fn existing_session(&self, id: &str) -> Session<'_> {
        Session { app: self, id: id.to_owned() }
    }

    /// Makes the model play another script from the next request on.
    pub(crate) fn play(&self, script: &Value) {
        self.simulator.set_script(Script::from_json(&script.to_string()).unwrap());
    }

    /// The requests that the model has received.
    pub(crate) fn upstream(&self) -> Upstream {
        Upstream::of(&self.simulator)
    }

    /// Waits until the service has counted this number of runs that settled with this status.
    pub(crate) async fn has_settled(&self, status: &str, runs: u64) {
        let line = format!(r#"twostep_runs_settled_total{{status="{status}"}} {runs}"#);
        let deadline = Instant::now() + HUNG;
        loop {
            let text = self.get("/metrics").send().await.unwrap().text().await.unwrap();
            if text.lines().any(|found| found == line) {
                return;
            }
            assert!(Instant::now() < deadline, "{line} is missing: {text}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Writes a file to the workspace that all sessions of the test share.
    pub(crate) fn write_file(&self, name: &str, content: &str) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    /// Replaces the service by another one with the same database and workspace, another script
    /// and default settings.
    pub(crate) async fn restarted(self, script: Value) -> Self {
        self.restarted_with(script, Setup::default()).await
    }

    /// As [`TestApp::restarted`], with these settings.
    pub(crate) async fn restarted_with(self, script: Value, setup: Setup) -> Self {
        assert_eq!(self.simulator.refusals(), Vec::<String>::new());
        self.replaced_by(script, setup).await
    }

    /// As [`TestApp::restarted`], for a test that has checked the refusals of the model itself.
    pub(crate) async fn restarted_after_refusals(self, script: Value) -> Self {
        self.replaced_by(script, Setup::default()).await
    }

    async fn replaced_by(self, script: Value, setup: Setup) -> Self {
        let (database, folder) = (Arc::clone(&self.database), Arc::clone(&self.folder));
        self.stop_unchecked().await;
        Box::pin(Self::on(script, setup, database, folder)).await
    }
}

async fn simulator(script: &Value, setup: &Setup) -> Running {
    let script = Script::from_json(&script.to_string()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = Options { simulates_cache: setup.simulates_cache, ..Options::recording() };
    options.max_input_tokens = setup.window.unwrap_or(options.max_input_tokens);
    Simulator::start(listener, script, options)
}
