//! What a polite client notices of rude ones: `make attack` prints it.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::http2::{Rudeness, all, be_rude};
use crate::support::{Program, binary, client_with, database};

/// How long each attack takes, and how many attack at a time.
const TIME: Duration = Duration::from_secs(5);
const ATTACKERS: usize = 50;

/// What attackers do, again and again.
#[derive(Clone)]
enum Attack {
    Nobody,
    /// One connection after the other, with nothing on it.
    Connections,
    /// Heads that come a letter at a time.
    SlowHeads,
    /// Bodies that are deep and no JSON.
    DeepBodies,
    Rude(Rudeness),
}

impl Attack {
    fn name(&self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Connections => "connections",
            Self::SlowHeads => "slow heads",
            Self::DeepBodies => "deep bodies",
            Self::Rude(rudeness) => rudeness.name,
        }
    }

    async fn once(self, address: &str) {
        let Ok(mut socket) = TcpStream::connect(address).await else { return };
        match self {
            Self::Nobody => std::future::pending().await,
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
            Self::Rude(rudeness) => {
                be_rude(address.parse().unwrap(), rudeness).await;
            }
        }
    }
}

/// Attacks until it is told to stop.
async fn attack(attack: Attack, address: Arc<str>, stop: CancellationToken) {
    let again = async {
        loop {
            attack.clone().once(&address).await;
        }
    };
    stop.run_until_cancelled(again).await;
}

/// The middle and the 99th of a hundred.
fn percentiles(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort();
    [50, 99].map(|percent| times[times.len() * percent / 100].as_secs_f64() * 1000.0)
}

/// What a read and a small change take, for as long as an attack lasts, and how many are refused.
async fn be_polite(client: &Client, session: &str) -> ([[f64; 2]; 2], usize) {
    let (mut reads, mut changes, mut refused) = (Vec::new(), Vec::new(), 0);
    let begun = Instant::now();
    while begun.elapsed() < TIME {
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
async fn what_a_polite_client_waits_beside_rude_ones() {
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
    let plain = [Attack::Nobody, Attack::Connections, Attack::SlowHeads, Attack::DeepBodies];
    for kind in plain.into_iter().chain(all().into_iter().map(Attack::Rude)) {
        let stop = CancellationToken::new();
        let address: Arc<str> = program.address().into();
        for _ in 0..ATTACKERS {
            tokio::spawn(attack(kind.clone(), Arc::clone(&address), stop.clone()));
        }
        let ([read, change], refused) = be_polite(&client, &session).await;
        stop.cancel();
        let ([middle, late], name) = (read, kind.name());
        eprint!("| {name} | {middle:.1} | {late:.1} ");
        let [middle, late] = change;
        eprintln!("| {middle:.1} | {late:.1} | {refused} |");
    }
    program.terminate().await;
}
