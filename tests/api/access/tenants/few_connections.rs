//! A server that grants few connections: processes share them, and say so if there are too few.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, PgConnection};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use twostep::app::bring_up_to_date;

use super::database_users::{Owner, execute};
use crate::support::machine::HUNG;
use crate::support::{Setup, TestApp, binary, data_dir, outcome, replies, says};

/// The connections that a server with `max_connections = 20` grants to its users.
const USABLE: u32 = 17;

/// A user to whom the server grants this number of connections.
async fn owner_of_few(connections: u32) -> Owner {
    let owner = Owner::new().await;
    owner.grant_roles().await;
    let limit = format!("ALTER ROLE {:?} CONNECTION LIMIT {connections}", owner.name);
    execute(&owner.database, limit).await;
    owner
}

fn setup(owner: &Owner) -> Setup {
    Setup { database: Some(owner.options()), ..Setup::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_the_connections_of_a_small_server() {
    let owner = owner_of_few(USABLE).await;
    let (first, second) = (setup(&owner), setup(&owner));
    let script = replies(&[says("Hello.")]);
    let app = TestApp::on(script, first, owner.database, TempDir::new().unwrap()).await;
    let other = app.second_service(second).await;
    let posts = (0..40).map(async |number| {
        let session = app.session().await;
        let body = json!({ "content": "Hello" });
        let post =
            if number % 2 == 0 { session.message(&body) } else { other.message(&session, &body) };
        let response = post.header("prefer", "wait=30").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{}", response.text().await.unwrap());
        let run: Value = response.json().await.unwrap();
        assert_eq!(run["status"], "completed");
    });
    join_all(posts).await;
    for ready in [app.get("/readyz"), other.get("/readyz")] {
        assert_eq!(ready.send().await.unwrap().status(), StatusCode::OK);
    }
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_not_ready_while_it_gets_no_connection_for_requests() {
    let owner = owner_of_few(USABLE).await;
    let (setup, options) = (setup(&owner), owner.options());
    let script = replies(&[says("Hello.")]);
    let app = TestApp::on(script, setup, owner.database, TempDir::new().unwrap()).await;
    let session = app.session().await;
    assert_eq!(session.ask("Hello").await["status"], "completed");

    let stop = AtomicBool::new(false);
    // Takes every connection that becomes free.
    let hog = async {
        let mut taken: Vec<PgConnection> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            taken.extend(options.connect().await.ok());
            sleep(Duration::from_millis(5)).await;
        }
    };
    let observe = async {
        let admin = app.database.pool(1);
        let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                         WHERE datname = current_database() AND application_name = 'twostep api'";
        let detail = "no connection for requests of clients";
        let expected = json!({ "status": "failed", "detail": detail });
        let deadline = Instant::now() + HUNG;
        loop {
            sqlx::query(terminate).execute(&admin).await.unwrap();
            let ready = app.get("/readyz").send().await.unwrap();
            let (status, body) = (ready.status(), ready.json::<Value>().await.unwrap());
            if body["checks"]["database"] == expected {
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
                break;
            }
            assert!(Instant::now() < deadline, "{body}");
            sleep(Duration::from_millis(50)).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(hog, observe);
    let deadline = Instant::now() + HUNG;
    while app.get("/readyz").send().await.unwrap().status() != StatusCode::OK {
        assert!(Instant::now() < deadline, "the process does not become ready");
        sleep(Duration::from_millis(50)).await;
    }
    let again = app.session().await;
    assert_eq!(again.ask("Hello").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_needs_more_connections_than_the_server_grants_says_so_at_its_start() {
    let owner = owner_of_few(USABLE).await;
    bring_up_to_date(owner.options()).await.unwrap();
    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    let serve = async |more: &[&str]| {
        let args = ["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir", name];
        let mut command = binary(&[&args, more].concat());
        command.env("DATABASE_URL", owner.options().to_url_lossy().as_str());
        let (status, _, errors) = outcome(command).await;
        assert_eq!(status, Some(1), "{errors}");
        errors
    };
    let too_many = serve(&["--database-connections", "18"]).await;
    let expected = "twostep: --database-connections is 18, and the database server grants 17: lower the \
                    option, or raise max_connections of the server, or the CONNECTION LIMIT of the \
                    database or the user\n";
    assert!(too_many.ends_with(expected), "{too_many}");
    let too_few = serve(&["--database-connections", "5"]).await;
    let expected = "twostep: --database-connections is 5, and this process needs at least 6\n";
    assert!(too_few.ends_with(expected), "{too_few}");
    let limit = format!("ALTER ROLE {:?} CONNECTION LIMIT 5", owner.name);
    execute(&owner.database, limit).await;
    let small = serve(&[]).await;
    let expected = "twostep: the database server grants 5 connections, and this process needs at least \
                    6: raise max_connections of the server, or the CONNECTION LIMIT of the database or \
                    the user\n";
    assert!(small.ends_with(expected), "{small}");
}
