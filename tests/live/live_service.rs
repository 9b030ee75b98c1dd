//! The service with the real model.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::postgres::{TestDatabase, database};
use crate::program::{Program, binary, data_dir};

/// A running service with the real model, and its workspace.
pub(crate) struct LiveService {
    program: Program,
    client: Client,
    folder: TempDir,
    _database: TestDatabase,
}

/// A session of the service.
pub(crate) struct LiveSession<'a> {
    service: &'a LiveService,
    path: String,
}

impl LiveService {
    /// Starts the service with the key, the server and the model of the environment.
    pub(crate) async fn start(args: &[&str]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (database, folder) = (database().await, data_dir());
        std::fs::create_dir_all(folder.path().join("project/src")).unwrap();
        let mut command = binary(&["serve", "--bind", "127.0.0.1:0", "--shared-workspace"]);
        command.arg(folder.path().join("project")).arg("--data-dir").arg(folder.path()).args(args);
        command.env("DATABASE_URL", database.url());
        for name in ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "TWOSTEP_MODEL"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let program = Program::serve(command).await;
        Self { program, client: Client::new(), folder, _database: database }
    }

    /// The path of a file in the workspace.
    pub(crate) fn workspace_file(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join("project").join(name)
    }

    /// Creates a session with these settings.
    pub(crate) async fn session(&self, settings: Value) -> LiveSession<'_> {
        let session = self.send(self.client.post(self.url("/sessions")).json(&settings)).await;
        let path = format!("/sessions/{}", session["id"].as_str().unwrap());
        LiveSession { service: self, path }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/v1{path}", self.program.url)
    }

    async fn send(&self, request: RequestBuilder) -> Value {
        let response = request.timeout(Duration::from_mins(5)).send().await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert!(status.is_success(), "{status}: {body}");
        body
    }
}

impl LiveSession<'_> {
    /// Posts a message, waits for the end of its run, prints the answer, and returns the run, which must
    /// have completed with an answer.
    pub(crate) async fn ask(&self, content: impl Into<Value>) -> Value {
        self.ask_with(json!({ "content": content.into() })).await
    }

    /// As [`LiveSession::ask`], with other members of the message.
    pub(crate) async fn ask_with(&self, message: Value) -> Value {
        let post = self.service.client.post(self.service.url(&format!("{}/messages", self.path)));
        let run = self.service.send(post.header("prefer", "wait=240").json(&message)).await;
        let answer = run["output_text"].as_str().unwrap_or_default();
        println!("> {}\n{answer}\n", message["content"]);
        assert_eq!(run["status"], "completed", "{run}");
        assert!(!answer.trim().is_empty(), "{run}");
        run
    }

    /// Changes the session.
    pub(crate) async fn patch(&self, change: Value) -> Value {
        let patch = self.service.client.patch(self.service.url(&self.path)).json(&change);
        self.service.send(patch).await
    }

    /// Reads the session, or a resource below it.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let url = self.service.url(&format!("{}{path}", self.path));
        self.service.send(self.service.client.get(url)).await
    }

    /// The blocks of the history that have this type, also within results of calls.
    pub(crate) async fn blocks(&self, kind: &str) -> Vec<Value> {
        let messages = self.get("/messages?limit=200").await;
        let contents = messages["data"].as_array().unwrap().iter();
        let blocks = contents.filter_map(|item| item["message"]["content"].as_array()).flatten();
        let nested = |block: &Value| block["content"].as_array().cloned().unwrap_or_default();
        let all = blocks.flat_map(|block| [vec![block.clone()], nested(block)].concat());
        all.filter(|block| block["type"] == kind).collect()
    }

    /// The events of this type.
    pub(crate) async fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.get(&format!("/events?types={kind}&limit=200")).await;
        events["data"].as_array().unwrap().clone()
    }
}
