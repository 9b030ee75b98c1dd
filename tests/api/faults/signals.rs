//! Signals that stop the program: readers continue at another process, and a second signal exits at
//! once.

use std::path::Path;
use std::time::Duration;

use reqwest::Client;
use rustix::process::Signal;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::support::{
    EventStream, Program, RawStream, TestDatabase, binary, binary_of_few_files, data_dir, database,
    durable, replies, says, stops_short,
};

/// Arguments with a drain time of one second, because the model hangs.
const SERVE: [&str; 6] = ["serve", "--offline", "--bind", "127.0.0.1:0", "--drain-seconds", "1"];

fn client() -> Client {
    // Fails if another test of this process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

/// The program on this database, with a model that follows this script.
async fn serve(database: &TestDatabase, folder: &TempDir, script: &Value) -> Program {
    let path = folder.path().join("script.json");
    std::fs::write(&path, script.to_string()).unwrap();
    let mut command = binary(&SERVE);
    command.arg("--script").arg(path).env("DATABASE_URL", database.url());
    Program::serve(command).await
}

async fn new_session(client: &Client, url: &str) -> String {
    let session = client.post(format!("{url}/v1/sessions")).send().await.unwrap();
    session.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned()
}

/// Waits until a condition holds.
async fn until(condition: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !holds().await {
        assert!(Instant::now() < deadline, "timed out waiting for {condition}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_stopped_program_continues_at_another_and_misses_no_event() {
    let (database, folder) = (database().await, data_dir());
    let first = serve(&database, &folder, &replies(&[stops_short("Half of it is said.")])).await;
    let client = client();
    let session = new_session(&client, &first.url).await;
    let head = format!("GET /v1/sessions/{session}/events/stream HTTP/1.1");
    let mut idle = RawStream::open(first.address().parse().unwrap(), &head, "").await;
    idle.read_until("retry: 2000", 1).await;
    let path = format!("/v1/sessions/{session}/messages");
    let post = client.post(format!("{}{path}", first.url)).header("accept", "text/event-stream");
    let post = post.json(&json!({ "content": "Tell me" }));
    let mut stream = EventStream::new(post.send().await.unwrap());
    let location = stream.headers["location"].to_str().unwrap().to_owned();
    let mut seen = Vec::new();
    loop {
        let event = stream.next().await.unwrap();
        if event.name == "event_delta" {
            break;
        }
        seen.push(event);
    }
    let aborted =
        tokio::spawn(async move { while stream.try_next().await.unwrap_or(None).is_some() {} });
    let notified = tokio::spawn(async move { idle.read_until("retry: 1000", 1).await });
    let (status, time) = first.terminate().await;
    assert_eq!(status.code(), Some(0));
    assert!(time < Duration::from_secs(10), "{time:?}");
    aborted.await.unwrap();
    notified.await.unwrap();

    let second = serve(&database, &folder, &replies(&[says("All of it is said.")])).await;
    let last = seen.iter().filter_map(|event| event.id).max().unwrap();
    let again = client.get(format!("{}{location}", second.url)).header("last-event-id", last);
    let rest = EventStream::new(again.send().await.unwrap()).rest().await;
    let mut events = durable(&seen);
    events.extend(durable(&rest));
    let all = client.get(format!("{}/v1/sessions/{session}/events?limit=200", second.url));
    let all: Value = all.send().await.unwrap().json().await.unwrap();
    assert_eq!(Value::from(events), all["data"]);
    second.terminate().await;
}

/// Posts a message, locks the table of runs so that the run cannot be requeued, sends SIGTERM, and
/// waits until the program has begun to stop. The result holds the lock.
async fn begin_to_stop(program: &Program, options: &PgConnectOptions) -> PgConnection {
    let client = client();
    let session = new_session(&client, &program.url).await;
    let post = client.post(format!("{}/v1/sessions/{session}/messages", program.url));
    post.json(&json!({ "content": "Hang" })).send().await.unwrap();
    let mut locker = PgConnection::connect_with(options).await.unwrap();
    let running = "SELECT count(*) FROM runs WHERE status = 'running'";
    until("the run", async || {
        sqlx::query_scalar::<_, i64>(running).fetch_one(&mut locker).await.unwrap() == 1
    })
    .await;
    locker.execute("BEGIN; LOCK TABLE runs IN ACCESS EXCLUSIVE MODE").await.unwrap();
    program.signal(Signal::TERM);
    let address = program.address();
    until("the end of the listener", async || TcpStream::connect(address).await.is_err()).await;
    locker
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_program_at_once() {
    let (database, folder) = (database().await, data_dir());
    let program = serve(&database, &folder, &replies(&[stops_short("Well, well.")])).await;
    let lock = begin_to_stop(&program, &database.options()).await;
    let (status, time) = program.terminate().await;
    assert_eq!(status.code(), Some(128 + 15));
    assert!(time < Duration::from_secs(2), "{time:?}");
    drop(lock);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_database_stops_with_a_program_that_gets_two_signals() {
    let folder = data_dir();
    let script = folder.path().join("script.json");
    std::fs::write(&script, replies(&[stops_short("Well, well.")]).to_string()).unwrap();
    let mut command = binary(&SERVE);
    command.arg("--data-dir").arg(folder.path()).arg("--script").arg(script);
    let program = Program::serve(command).await;
    let socket = folder.path().join("postgres/run");
    let options = PgConnectOptions::new_without_pgpass()
        .socket(socket)
        .port(5432)
        .username("twostep")
        .database("twostep");
    let lock = begin_to_stop(&program, &options).await;
    let server: &Path = &folder.path().join("postgres/pg/postmaster.pid");
    assert!(server.exists());
    let (status, time) = program.end_by(Signal::INT).await;
    assert_eq!(status.code(), Some(128 + 2));
    assert!(time < Duration::from_secs(2), "{time:?}");
    until("the end of the database", async || !server.exists()).await;
    drop(lock);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_out_of_file_descriptors_serves_again_when_some_are_free() {
    const FILES: u32 = 64;
    let database = database().await;
    let mut command = binary_of_few_files(FILES, &SERVE);
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let mut held = Vec::new();
    for _ in 0..2 * FILES {
        held.push(TcpStream::connect(program.address()).await.unwrap());
    }
    let client = client();
    let request = || client.get(format!("{}/healthz", program.url));
    // The kernel completes the connection, and the program cannot accept it.
    let is_unanswered =
        async || request().timeout(Duration::from_millis(500)).send().await.is_err();
    until("the last file descriptor", is_unanswered).await;
    let before = program.ticks();
    sleep(Duration::from_secs(1)).await;
    let used = program.ticks() - before;
    assert!(used < 50, "the idle program used {used} hundredths of a second of CPU time");
    drop(held);
    assert_eq!(request().send().await.unwrap().status(), 200);
    program.terminate().await;
}
