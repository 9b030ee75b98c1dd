//! The secrets that the nodes receive. `make crash` searches the output of the nodes for them.

use std::fs;
use std::path::Path;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use reqwest::{Client, Response};
use tokio::net::TcpListener;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::kept_output;

pub(crate) const MODEL_KEY: &str = "planted-model-key";
pub(crate) const METRICS_KEY: &str = "planted-metrics-key";
pub(crate) const DATABASE_PASSWORD: &str = "planted-database-password";
/// The header of requests to the trace collector, as the value of the environment variable.
pub(crate) const COLLECTOR_HEADERS: &str = "authorization=Bearer%20planted-collector-key";

/// A trace collector, which keeps the batches that it receives.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) url: String,
    _task: AbortOnDropHandle<()>,
}

impl Collector {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        // A batch is binary with readable strings, which is enough for the search.
        let keep = async |body: Bytes| kept_output::keep_response(&String::from_utf8_lossy(&body));
        let router = Router::new().route("/v1/traces", post(keep));
        let serve = async {
            let _ = axum::serve(listener, router).await;
        };
        Ok(Self { url, _task: AbortOnDropHandle::new(TaskTracker::new().spawn(serve)) })
    }
}

/// Keeps the text of an error response.
pub(crate) async fn keep_refusal(response: Response) -> String {
    let text = response.text().await.unwrap_or_default();
    kept_output::keep_response(&text);
    text
}

/// Keeps the metrics of a node.
pub(crate) async fn keep_metrics(http: &Client, address: &str) {
    if let Ok(response) =
        http.get(format!("{address}/metrics")).bearer_auth(METRICS_KEY).send().await
    {
        kept_output::keep_response(&response.text().await.unwrap_or_default());
    }
}

/// Keeps the logs of the nodes of all testbeds, which are in subfolders of `folder`.
pub(crate) fn keep_logs(folder: &Path) {
    let testbeds = fs::read_dir(folder).into_iter().flatten().flatten();
    let files =
        testbeds.flat_map(|testbed| fs::read_dir(testbed.path()).into_iter().flatten().flatten());
    for path in
        files.map(|file| file.path()).filter(|path| path.extension() == Some("log".as_ref()))
    {
        kept_output::keep_response(&fs::read_to_string(path).unwrap_or_default());
    }
}
