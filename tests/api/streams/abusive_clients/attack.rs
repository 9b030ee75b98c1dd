//! Measures the response times of a normal client during attacks: `make attack` prints them.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::http2::{Http2Attack, all, run_http2_attack};
use crate::support::{Program, binary, client_with, database};

/// The duration of each attack, and the number of concurrent attackers.
const TIME: Duration = Duration::from_secs(5);
const ATTACKERS: usize = 50;

/// The actions that attackers repeat.
#[derive(Clone)]
enum Attack {
    /// No attack, for comparison.
    None,
    /// Opens and closes connections without sending anything.
    Connections,
    /// Sends the head of a request one byte at a time.
    SlowHeads,
    /// Sends deeply nested bodies that are not JSON.
    DeepBodies,
    Http2(Http2Attack),
}

impl Attack {
    fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Connections => "connections",
            Self::SlowHeads => "slow heads",
            Self::DeepBodies => "deep bodies",
            Self::Http2(attack) => attack.name,
        }
    }

    async fn once(self, address: &str) {
        let Ok(mut socket) = TcpStream::connect(address).await else { return };
        match self {
            Self::None => std::future::pending().await,
            Self::Connections => drop(socket),
            Self::SlowHeads => {
                while socket.write_all(b"a").await.is_ok() {
                    sleep(Duration::from_millis(10)).await;
                }
            }
            Self::DeepBodies => {
                let body = "[".repeat(1_000_000);
                let length = body.len();
                let head = format!(
                    "POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                     content-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                let _ = socket.write_all(head.as_bytes()).await;
                let _ = timeout(TIME, socket.read_to_end(&mut Vec::new())).await;
            }
            Self::Http2(attack) => {
                run_http2_attack(address.parse().unwrap(), attack).await;
            }
        }
    }
}

/// Repeats an attack until `stop` is cancelled.
async fn attack(attack: Attack, address: Arc<str>, stop: CancellationToken) {
    let attacks = async {
        loop {
            attack.clone().once(&address).await;
        }
    };
    stop.run_until_cancelled(attacks).await;
}

/// Returns the median and the 99th percentile, in milliseconds.
fn percentiles(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort();
    [50, 99].map(|percent| times[times.len() * percent / 100].as_secs_f64() * 1000.0)
}

/// Sends reads and small changes during an attack. Returns the percentiles of their durations and
/// the number of refused requests.
async fn measure_normal_client(client: &Client, session: &str) -> ([[f64; 2]; 2], usize) {
    let (mut reads, mut changes, mut refused) = (Vec::new(), Vec::new(), 0);
    let started = Instant::now();
    while started.elapsed() < TIME {
        let asked = Instant::now();
        refused += usize::from(client.get(session).send().await.unwrap().status() != 200);
        reads.push(asked.elapsed());
        let asked = Instant::now();
        let patch = client.patch(session).json(&json!({ "title": format!("{asked:?}") }));
        refused += usize::from(patch.send().await.unwrap().status() != 200);
        changes.push(asked.elapsed());
        sleep(Duration::from_millis(5)).await;
    }
    ([percentiles(reads), percentiles(changes)], refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: `make attack`"]
async fn response_times_of_a_normal_client_during_attacks() {
    let database = database().await;
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0"]);
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let client = client_with(None);
    let sessions = format!("{}/v1/sessions", program.url);
    let session: Value = client.post(&sessions).send().await.unwrap().json().await.unwrap();
    let session = format!("{sessions}/{}", session["id"].as_str().unwrap());

    eprintln!("| {ATTACKERS} times | read p50, ms | p99 | change p50, ms | p99 | refused |");
    eprintln!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let plain = [Attack::None, Attack::Connections, Attack::SlowHeads, Attack::DeepBodies];
    for kind in plain.into_iter().chain(all().into_iter().map(Attack::Http2)) {
        let stop = CancellationToken::new();
        let address: Arc<str> = program.address().into();
        for _ in 0..ATTACKERS {
            tokio::spawn(attack(kind.clone(), Arc::clone(&address), stop.clone()));
        }
        let ([read, change], refused) = measure_normal_client(&client, &session).await;
        stop.cancel();
        let ([middle, late], name) = (read, kind.name());
        eprint!("| {name} | {middle:.1} | {late:.1} ");
        let [middle, late] = change;
        eprintln!("| {middle:.1} | {late:.1} | {refused} |");
    }
    program.terminate().await;
}
