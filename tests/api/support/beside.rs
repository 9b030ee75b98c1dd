//! A second process, played by a second service of the same process: it shares the database, the
//! folder and the model with the first, and nothing else.

use std::net::SocketAddr;

use reqwest::RequestBuilder;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use twostep::app::Application;

use super::{Session, Setup, TestApp, config};

/// A service beside another one.
pub(crate) struct Beside<'a> {
    first: &'a TestApp,
    address: Option<SocketAddr>,
    _state: TempDir,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl TestApp {
    /// Another service on the same database.
    pub(crate) async fn beside(&self, setup: Setup) -> Beside<'_> {
        let state = TempDir::new().unwrap();
        let folders = (self.folder.path(), state.path());
        let config = config(&self.simulator, &self.database, folders, setup);
        let app = Application::build(config).await.unwrap();
        let stop = CancellationToken::new();
        Beside {
            first: self,
            address: app.address(),
            _state: state,
            task: TaskTracker::new().spawn(app.run_until_stopped(stop.clone())),
            stop,
        }
    }
}

impl Beside<'_> {
    /// A post to this service.
    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.first.client.post(self.url(path))
    }

    /// A read from this service.
    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.first.client.get(self.url(path))
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address.unwrap())
    }

    /// A post of a message to a session of either service.
    pub(crate) fn message(&self, session: &Session<'_>, body: &Value) -> RequestBuilder {
        self.post(&session.path("/messages")).json(body)
    }

    /// Stops the service; the other one goes on.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}
