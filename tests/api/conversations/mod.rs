//! Random conversations: parallel calls, failures of the model, cancels, approvals, messages to a
//! busy session, forks, and services that die and come back. Whatever happens, the model refuses no
//! request, each request begins with the bytes of the one before it, what is stored is what was
//! sent, every run ends as its script or somebody's deed explains, and the database keeps its
//! invariants.
//!
//! What happens follows from a seed, when it happens does not quite. `TWOSTEP_TEST_SEED` names the
//! first conversation, `TWOSTEP_TEST_CONVERSATIONS` how many there are.

mod check;
mod house;
mod plan;
mod player;
mod replies;
mod words;

use std::sync::atomic::Ordering;

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use serde_json::json;

use check::Message;
use check::runs::unexplained;
use house::{Counts, House};
use plan::{Move, Plan};
use player::Player;

/// Conversations of one service.
const TOGETHER: u64 = 4;

/// Conversations when nobody says how many.
const DEFAULT: u64 = 24;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_in_a_conversation_every_request_continues_the_one_before_it() {
    let _ = tracing_subscriber::fmt().with_test_writer().with_ansi(false).try_init();
    let first = number("TWOSTEP_TEST_SEED").unwrap_or_else(|| u64::from(fastrand::u32(..)));
    let count = number("TWOSTEP_TEST_CONVERSATIONS").unwrap_or(DEFAULT);
    tracing::info!("TWOSTEP_TEST_SEED={first} TWOSTEP_TEST_CONVERSATIONS={count}");
    let seeds: Vec<u64> = (first..first + count).collect();
    // Who shares a service does not depend on where the test begins.
    let houses = seeds.chunk_by(|one, next| one / TOGETHER == next / TOGETHER);
    let houses = stream::iter(houses).map(|seeds| live(seeds.to_vec()));
    let faults: Vec<Vec<String>> = houses.buffer_unordered(2).collect().await;
    let faults = faults.concat();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Plays some conversations side by side, and says what is wrong with them.
async fn live(seeds: Vec<u64>) -> Vec<String> {
    let (first, count) = (seeds[0], seeds.len());
    let plans: Vec<Plan> = seeds.into_iter().map(Plan::new).collect();
    let house = House::open(&plans, first / TOGETHER).await;
    let conversations = plans.iter().map(|plan| talk(&house, plan));
    let mut faults = join_all(conversations).await.concat();
    faults.extend(house.faults().await);
    tell(&house.counts);
    house.close().await;
    let again = format!("TWOSTEP_TEST_SEED={first} TWOSTEP_TEST_CONVERSATIONS={count}");
    faults.iter().map(|fault| format!("{again}: {fault}")).collect()
}

/// Plays a conversation, and says what is wrong with it.
async fn talk(house: &House, plan: &Plan) -> Vec<String> {
    let (player, runs) = Player::play(house, plan).await;
    let mut faults = Vec::new();
    let findings = player.verify().await;
    if findings != json!([]) {
        faults.push(format!("verify: {findings}"));
    }
    if let Some(last) = runs.last().filter(|last| last["status"] != "completed") {
        faults.push(format!("the session does not go on: {last}"));
    }
    let stopped = plan.moves.iter().filter(|one| one.stops_the_run()).count();
    for (one, run) in plan.moves.iter().zip(&runs) {
        let replies = &one.script["replies"];
        faults.extend(unexplained(run, replies, one.stops_the_run(), house.ends()));
    }
    let history = player.history().await;
    let history: Vec<Message> = history.iter().flat_map(|page| Message::of_page(page)).collect();
    let bodies = house.requests(&plan.name);
    faults.extend(check::faults(&bodies, &history));
    faults.extend(check::needless(house.unread(&plan.name), &history, stopped + house.ends()));
    faults.extend(check::doubled(&history, plan.moves.iter().map(Move::key)));
    tracing::info!(
        seed = plan.seed,
        runs = runs.len(),
        requests = bodies.len(),
        messages = history.len(),
        "a conversation has ended"
    );
    faults.iter().map(|fault| format!("{}: {fault}", plan.name)).collect()
}

fn tell(counts: &Counts) {
    let Counts { messages, answers, silences, cancels, interrupts, kills, stops, forks } = counts;
    let [messages, answers, silences, cancels, interrupts, kills, stops, forks] =
        [messages, answers, silences, cancels, interrupts, kills, stops, forks]
            .map(|one| one.load(Ordering::Relaxed));
    tracing::info!(
        messages,
        answers,
        silences,
        cancels,
        interrupts,
        kills,
        stops,
        forks,
        "a service has ended"
    );
}
