//! Clients that open streams and do not read cost the service little memory and do not delay
//! others.

use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

use crate::support::machine::HUNG;
use crate::support::{Program, binary, database, fill_with_events};

const READERS: usize = 200;
const EVENTS: i64 = 10_000;
const MAX_GROWTH: u64 = 64 * 1024;

async fn stalled_reader(address: &str, session: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let head =
        format!("GET /v1/sessions/{session}/events/stream HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn new_session(client: &Client, url: &str) -> String {
    let session = client.post(format!("{url}/v1/sessions")).send().await.unwrap();
    session.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned()
}

/// Executes a run and returns its duration.
async fn ask(client: &Client, url: &str, session: &str) -> Duration {
    let started = Instant::now();
    let path = format!("{url}/v1/sessions/{session}/messages");
    let post = client.post(path).header("prefer", "wait=30");
    let run = post.json(&json!({ "content": "What time is it?" })).send().await.unwrap();
    assert_eq!(run.json::<Value>().await.unwrap()["status"], "completed");
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_cost_little_memory_and_delay_no_run() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let database = database().await;
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0"]);
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let client = Client::builder().no_proxy().build().unwrap();
    let [full, other] =
        [new_session(&client, &program.url).await, new_session(&client, &program.url).await];
    fill_with_events(&database, &full, EVENTS).await;
    // The memory that the service needs in any case, and the duration of a run.
    let mut times = Vec::new();
    for _ in 0..20 {
        times.push(ask(&client, &program.url, &other).await);
    }
    let usual = median(times);
    let before = program.resident_kib();

    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(stalled_reader(program.address(), &full).await);
    }
    for reader in &readers {
        timeout(HUNG, reader.readable()).await.unwrap().unwrap();
    }
    let mut peak = 0;
    let mut times = Vec::new();
    for _ in 0..40 {
        times.push(ask(&client, &program.url, &other).await);
        peak = peak.max(program.resident_kib());
    }
    let growth = peak.saturating_sub(before);
    let during = median(times);
    eprintln!(
        "{READERS} stalled readers: {growth} KiB more; a run takes {during:?}, not {usual:?}"
    );
    assert!(growth < MAX_GROWTH, "{growth} KiB more");
    // A run that waits for a reader takes 30 s or more, which fails it already.
    assert!(during < 50 * usual, "{during:?} instead of {usual:?}");
    drop(readers);
    program.terminate().await;
}
