//! Random conversations: parallel calls, failures of the model, cancellations, approvals, messages
//! to a busy session, forks, and services that are killed and started again.
//!
//! After each conversation the test checks that the model has refused no request, that each request
//! begins with the bytes of the previous one, that the stored history equals the sent one, that the
//! script or an action of the test explains the state of every run, and that the database keeps its
//! invariants.
//!
//! The seed determines the actions, but not their exact timing. `TWOSTEP_TEST_SEED` is the seed of
//! the first conversation, `TWOSTEP_TEST_CONVERSATIONS` the number of conversations.

mod check;
mod plan;
mod player;
mod replies;
mod test_service;
mod texts;

use std::sync::atomic::Ordering;

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use serde_json::json;

use check::Message;
use check::runs::unexplained;
use plan::{Plan, PlannedMessage};
use player::Player;
use test_service::{Counts, TestService};

/// The number of conversations that share a service.
const PER_SERVICE: u64 = 4;

/// The default number of conversations.
const DEFAULT: u64 = 24;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn in_random_conversations_every_request_continues_the_previous_one() {
    let _ = tracing_subscriber::fmt().with_test_writer().with_ansi(false).try_init();
    let first = number("TWOSTEP_TEST_SEED").unwrap_or_else(|| u64::from(fastrand::u32(..)));
    let count = number("TWOSTEP_TEST_CONVERSATIONS").unwrap_or(DEFAULT);
    tracing::info!("TWOSTEP_TEST_SEED={first} TWOSTEP_TEST_CONVERSATIONS={count}");
    let seeds: Vec<u64> = (first..first + count).collect();
    // The grouping of seeds by service does not depend on the first seed.
    let groups = seeds.chunk_by(|one, next| one / PER_SERVICE == next / PER_SERVICE);
    let groups = stream::iter(groups).map(|seeds| play_group(seeds.to_vec()));
    let faults: Vec<Vec<String>> = groups.buffer_unordered(2).collect().await;
    let faults = faults.concat();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Plays several conversations with one service at the same time. Returns their faults.
async fn play_group(seeds: Vec<u64>) -> Vec<String> {
    let (first, count) = (seeds[0], seeds.len());
    let plans: Vec<Plan> = seeds.into_iter().map(Plan::new).collect();
    let service = TestService::open(&plans, first / PER_SERVICE).await;
    let conversations = plans.iter().map(|plan| play(&service, plan));
    let mut faults = join_all(conversations).await.concat();
    faults.extend(service.faults().await);
    log_counts(&service.counts);
    service.close().await;
    let again = format!("TWOSTEP_TEST_SEED={first} TWOSTEP_TEST_CONVERSATIONS={count}");
    faults.iter().map(|fault| format!("{again}: {fault}")).collect()
}

/// Plays a conversation and returns its faults.
async fn play(service: &TestService, plan: &Plan) -> Vec<String> {
    let (player, runs) = Player::play(service, plan).await;
    let mut faults = Vec::new();
    let findings = player.verify().await;
    if findings != json!([]) {
        faults.push(format!("verify: {findings}"));
    }
    if let Some(last) = runs.last().filter(|last| last["status"] != "completed") {
        faults.push(format!("the last run of the session did not complete: {last}"));
    }
    let stopped = plan.messages.iter().filter(|message| message.stops_the_run()).count();
    for (message, run) in plan.messages.iter().zip(&runs) {
        let replies = &message.script["replies"];
        faults.extend(unexplained(run, replies, message.stops_the_run(), service.restarts()));
    }
    let history = player.history().await;
    let history: Vec<Message> = history.iter().flat_map(|page| Message::of_page(page)).collect();
    let bodies = service.requests(&plan.name);
    faults.extend(check::faults(&bodies, &history));
    let refusals = service.unreadable_refusals(&plan.name);
    faults.extend(check::excess_refusals(refusals, &history, stopped + service.restarts()));
    faults.extend(check::duplicates(&history, plan.messages.iter().map(PlannedMessage::key)));
    tracing::info!(
        seed = plan.seed,
        runs = runs.len(),
        requests = bodies.len(),
        messages = history.len(),
        "conversation finished"
    );
    faults.iter().map(|fault| format!("{}: {fault}", plan.name)).collect()
}

fn log_counts(counts: &Counts) {
    let Counts { messages, answers, unanswered, cancels, interrupts, kills, stops, forks } = counts;
    let [messages, answers, unanswered, cancels, interrupts, kills, stops, forks] =
        [messages, answers, unanswered, cancels, interrupts, kills, stops, forks]
            .map(|counter| counter.load(Ordering::Relaxed));
    tracing::info!(
        messages,
        answers,
        unanswered,
        cancels,
        interrupts,
        kills,
        stops,
        forks,
        "service stopped"
    );
}
