//! Errors of connections to the database: clients get 503 with `Retry-After`, and runs wait.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{Client, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sqlx::postgres::PgSslMode;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::support::machine::HUNG;
use crate::support::{
    Closing, Program, Proxy, Setup, TestApp, binary, calls, client_with, data_dir, database,
    problem, replies,
};

/// A service behind a proxy, whose connections negotiate TLS as this mode says.
async fn behind(ssl_mode: PgSslMode) -> (Proxy, TestApp) {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let proxy = Proxy::before(&database.options()).await;
    let options = proxy.options(&database.options()).ssl_mode(ssl_mode);
    let setup = Setup { database: Some(options), ..Setup::default() };
    let mut last =
        json!({ "content": [{ "type": "text", "text": "word ".repeat(40) }], "chunk": 5 });
    last["pace_ms"] = 25.into();
    let write = calls("write_file", json!({ "path": "a.txt", "content": "1" }));
    (proxy, Box::pin(TestApp::on(replies(&[write, last]), setup, database, folder)).await)
}

/// Requests while the proxy closes connections: reads and posts, at the same time.
async fn assert_unavailable(app: &TestApp, path: &str) {
    let requests = (0..20).map(|number| async move {
        let request = if number % 2 == 0 {
            app.get(path)
        } else {
            app.post(&format!("{path}/messages")).json(&json!({ "content": "Is it up?" }))
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["retry-after"], "1");
        problem(response, 503, "database_unavailable").await;
    });
    join_all(requests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_connections_are_closed_is_unavailable_and_its_runs_wait() {
    // In the handshake, the client notices that in different ways.
    for ssl_mode in [PgSslMode::Disable, PgSslMode::Prefer] {
        for closing in [Closing::AtOnce, Closing::InReplies] {
            let (proxy, app) = behind(ssl_mode).await;
            let session = app.session().await;
            let run = session.post(json!({ "content": "Write" })).await;
            session.reached(&run, "agent.tool_result").await;
            proxy.close_connections(closing);
            assert_unavailable(&app, &session.path("")).await;
            proxy.close_connections(Closing::None);
            assert_eq!(
                session.settled(&run).await["status"],
                "completed",
                "{ssl_mode:?} {closing:?}"
            );
            app.stop().await;
        }
    }
}

/// Ends the server as a crash does: all connections are closed at once, and it recovers at its start.
fn crash(data_dir: &Path) {
    let pid_file = data_dir.join("postgres/pg/postmaster.pid");
    let Ok(text) = std::fs::read_to_string(pid_file) else { return };
    let Some(Ok(pid)) = text.lines().next().map(str::parse) else { return };
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::QUIT);
}

/// Waits until the service executes runs again.
async fn is_up(client: &Client, url: &str) {
    let deadline = Instant::now() + HUNG;
    loop {
        if let Ok(response) = client.get(format!("{url}/readyz")).send().await
            && response.status() == StatusCode::OK
        {
            return;
        }
        assert!(Instant::now() < deadline, "the service did not become ready");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_during_restarts_of_the_server_succeed_or_get_503() {
    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    let serve = ["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir", name];
    let program = Program::serve(binary(&serve)).await;
    let client = client_with(None);
    let sessions = join_all((0..8).map(|_| async {
        let created = client.post(format!("{}/v1/sessions", program.url)).send().await.unwrap();
        let created: Value = created.json().await.unwrap();
        format!("{}/v1/sessions/{}", program.url, created["id"].as_str().unwrap())
    }));
    let sessions = sessions.await;
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let clients = sessions.iter().map(async |session: &String| {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            let request = if number % 3 == 0 {
                client.get(session)
            } else {
                client.post(format!("{session}/messages")).json(&json!({ "content": "Hello" }))
            };
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let text = response.text().await.unwrap();
            let is_expected = match status {
                200..300 => true,
                503 => text.contains("\"database_unavailable\""),
                // The queue of a session is full while its runs wait.
                409 => text.contains("\"queue_full\""),
                _ => false,
            };
            assert!(is_expected, "{status}: {text}");
            served.fetch_add(usize::from(status < 300), Ordering::Relaxed);
        }
    });
    let restarts = async {
        for _ in 0..4 {
            let before = served.load(Ordering::Relaxed);
            let deadline = Instant::now() + HUNG;
            while served.load(Ordering::Relaxed) < before + 20 {
                assert!(Instant::now() < deadline, "no request succeeds");
                sleep(Duration::from_millis(10)).await;
            }
            crash(folder.path());
            is_up(&client, &program.url).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(join_all(clients), restarts);
    is_up(&client, &program.url).await;
    assert_eq!(program.terminate().await.0.code(), Some(0));
}
