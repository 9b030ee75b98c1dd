//! The program is killed while it executes many runs: the next one takes all of them over, innocent
//! runs survive, and a run that kills every worker fails alone.

use std::path::Path;
use std::time::Duration;

use reqwest::Client;
use rustix::process::Signal;
use serde_json::{Value, json};
use simulator::{Options, Running, Script, Simulator};
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use crate::support::{Program, TestDatabase, binary, client_with, data_dir, database, says};

/// A model, a database, and programs that are killed.
struct Bed {
    database: TestDatabase,
    pool: PgPool,
    model: Running,
    client: Client,
}

impl Bed {
    async fn new(script: Value) -> Self {
        let database = database().await;
        let client = client_with(None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let model = Simulator::start(listener, parsed(&script), Options::recording());
        Self { pool: database.pool(2), database, model, client }
    }

    /// Starts the program with this data folder, which identifies its worker.
    async fn serve(&self, data: &TempDir) -> Program {
        let folders: &Path = data.path();
        let mut command = binary(&["serve", "--bind", "127.0.0.1:0", "--slots", "256"]);
        command
            .env("DATABASE_URL", self.database.url())
            .env("ANTHROPIC_BASE_URL", self.model.base_url())
            .env("ANTHROPIC_API_KEY", "any")
            .env("TWOSTEP_MODEL", "simulator")
            .env("TWOSTEP_DATA_DIR", folders);
        Program::serve(command).await
    }

    /// Posts a message to a new session and returns the run.
    async fn post(&self, program: &Program, text: &str) -> Value {
        let session = self.client.post(format!("{}/v1/sessions", program.url));
        let session: Value = session.send().await.unwrap().json().await.unwrap();
        let url = format!("{}/v1/sessions/{}", program.url, session["id"].as_str().unwrap());
        let post = self.client.post(format!("{url}/messages"));
        let post = post.json(&json!({ "content": text })).send().await.unwrap();
        assert_eq!(post.status(), 202);
        post.json().await.unwrap()
    }

    async fn post_all(&self, program: &Program, runs: usize, text: &str) {
        for _ in 0..runs {
            self.post(program, text).await;
        }
    }

    async fn number(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until a query finds this number of rows, and returns the time that it took.
    async fn until(&self, query: &'static str, expected: i64) -> Duration {
        let started = Instant::now();
        loop {
            let found = self.number(query).await;
            if found == expected {
                return started.elapsed();
            }
            let waited = started.elapsed();
            assert!(waited < Duration::from_mins(3), "{query}: {found} in place of {expected}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The requests for the run with this text.
    fn requests(&self, text: &str) -> usize {
        let requests = self.model.requests();
        let is_of = |body: &[u8]| String::from_utf8_lossy(body).contains(text);
        requests.iter().filter(|request| is_of(&request.body)).count()
    }
}

async fn kill(program: Program) {
    program.end_by(Signal::KILL).await;
}

/// Runs that a worker drives in the attempt of the number.
macro_rules! driven_in_attempt {
    ($attempt:literal) => {
        concat!(
            "SELECT count(*) FROM events e JOIN runs r ON r.id = e.run_id
             WHERE r.status = 'running' AND e.type = 'session.status_running'
               AND e.body ->> 'attempt' = '",
            $attempt,
            "'"
        )
    };
}

const UNSETTLED: &str = "SELECT count(*) FROM runs WHERE finished_at IS NULL";
const SUSPECTED: &str = "SELECT count(*) FROM runs WHERE takeovers > 0";
const COMPLETED: &str = "SELECT count(*) FROM runs WHERE status = 'completed'";
const CRASH_LOOPS: &str = "SELECT count(*) FROM runs WHERE outcome::text LIKE '%crash_loop%'";

fn parsed(script: &Value) -> Script {
    Script::from_json(&script.to_string()).unwrap()
}

fn slow(text: &str, delay_ms: u64) -> Value {
    let mut reply = says(text);
    reply["delay_ms"] = delay_ms.into();
    reply
}

/// A script whose reply takes this long.
fn replies_after(delay_ms: u64) -> Value {
    json!({ "conversations": [{ "replies": [slow("Done.", delay_ms)] }] })
}

/// Longer than a test.
const NEVER: u64 = 600_000;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_runs_are_taken_over_at_once_by_another_process_and_by_a_restarted_one() {
    let bed = Bed::new(replies_after(NEVER)).await;
    let folders = [data_dir(), data_dir()];
    let first = bed.serve(&folders[0]).await;
    bed.post_all(&first, 200, "Hello").await;
    bed.until(driven_in_attempt!("1"), 200).await;
    let second = bed.serve(&folders[1]).await;
    kill(first).await;
    let elsewhere = bed.until(driven_in_attempt!("2"), 200).await;

    kill(second).await;
    let second = bed.serve(&folders[1]).await;
    let same_node = bed.until(driven_in_attempt!("3"), 200).await;
    tracing::info!("200 runs taken over: {elsewhere:?} elsewhere, {same_node:?} on the same node");
    // The leases take 12 s to expire. With one batch per second, the takeovers took 12 s more.
    assert!(elsewhere < Duration::from_secs(20), "{elsewhere:?}");
    assert!(same_node < Duration::from_secs(6), "{same_node:?}");
    kill(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_worker_that_was_paused_do_not_count_as_taken_over() {
    let bed = Bed::new(replies_after(NEVER)).await;
    let folders = [data_dir(), data_dir()];
    let first = bed.serve(&folders[0]).await;
    bed.post_all(&first, 3, "Hello").await;
    bed.until(driven_in_attempt!("1"), 3).await;
    let second = bed.serve(&folders[1]).await;
    first.signal(Signal::STOP);
    bed.until(driven_in_attempt!("2"), 3).await;
    bed.until(SUSPECTED, 3).await;
    first.signal(Signal::CONT);
    let taken_back = bed.until(SUSPECTED, 0).await;
    // The next step with progress is that after the idle timeout of the model, a minute later.
    assert!(taken_back < Duration::from_secs(30), "{taken_back:?}");
    kill(first).await;
    kill(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_whose_worker_is_killed_four_times_complete() {
    let bed = Bed::new(replies_after(NEVER)).await;
    let folder = data_dir();
    let mut program = bed.serve(&folder).await;
    bed.post_all(&program, 20, "Hello").await;
    // Every kill hits all runs while they wait for the model.
    for driven in [driven_in_attempt!("1"), driven_in_attempt!("2"), driven_in_attempt!("3")] {
        bed.until(driven, 20).await;
        kill(program).await;
        program = bed.serve(&folder).await;
    }
    // Now they are suspects, of which few are executed at once.
    bed.until(driven_in_attempt!("4"), 8).await;
    bed.model.set_script(parsed(&replies_after(1000)));
    kill(program).await;
    let program = bed.serve(&folder).await;
    bed.until(UNSETTLED, 0).await;
    assert_eq!((bed.number(COMPLETED).await, bed.number(CRASH_LOOPS).await), (20, 0));
    kill(program).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_kills_every_worker_fails_after_seven_deaths_and_takes_no_other_run_with_it() {
    let script = json!({ "conversations": [
        { "when": "poison", "replies": [{ "content": [], "hang_after": 0 }] },
        { "replies": [slow("Done.", 1500)] },
    ]});
    let bed = Bed::new(script).await;
    let folder = data_dir();
    let mut program = bed.serve(&folder).await;
    bed.post(&program, "poison").await;
    bed.post_all(&program, 10, "Hello").await;
    let mut deaths = 0;
    let deadline = Instant::now() + Duration::from_mins(5);
    while bed.number(CRASH_LOOPS).await == 0 {
        assert!(Instant::now() < deadline, "the run was not failed after {deaths} deaths");
        if bed.requests("poison") > deaths {
            deaths += 1;
            assert!(deaths <= 7, "the run kills workers without end");
            kill(program).await;
            program = bed.serve(&folder).await;
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(deaths, 7);
    bed.until(UNSETTLED, 0).await;
    assert_eq!((bed.number(COMPLETED).await, bed.number(CRASH_LOOPS).await), (10, 1));
    kill(program).await;
}
