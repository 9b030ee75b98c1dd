//! A second service in the same process. It simulates a second process: it shares only the
//! database, the workspace and the model with the first service.

use std::net::SocketAddr;

use reqwest::RequestBuilder;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use twostep::app::Application;

use super::setup::config;
use super::{Session, Setup, TestApp};

/// A second service on the database of the first one.
pub(crate) struct SecondService<'a> {
    first: &'a TestApp,
    address: Option<SocketAddr>,
    _state: TempDir,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl TestApp {
    /// Starts another service on the same database.
    pub(crate) async fn second_service(&self, setup: Setup) -> SecondService<'_> {
        let state = TempDir::new().unwrap();
        let folders = (self.folder.path(), state.path());
        let config = config(&self.simulator, &self.database, folders, setup);
        let app = Application::build(config).await.unwrap();
        let stop = CancellationToken::new();
        SecondService {
            first: self,
            address: app.address(),
            _state: state,
            task: TaskTracker::new().spawn(app.run_until_stopped(stop.clone())),
            stop,
        }
    }
}

impl SecondService<'_> {
    /// A POST request to this service.
    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.first.client.post(self.url(path))
    }

    /// A PATCH request to this service.
    pub(crate) fn patch(&self, path: &str) -> RequestBuilder {
        self.first.client.patch(self.url(path))
    }

    /// A GET request to this service.
    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.first.client.get(self.url(path))
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address.unwrap())
    }

    /// A request to this service that posts a message to a session.
    pub(crate) fn message(&self, session: &Session<'_>, body: &Value) -> RequestBuilder {
        self.post(&session.path("/messages")).json(body)
    }

    /// Stops this service; the first one continues.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}
