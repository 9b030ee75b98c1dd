//! Tables and properties of the loop.

use proptest::prelude::*;

use super::*;
use crate::domain::message::Content;
use crate::domain::usage::Usage;

fn user() -> Message {
    Message {
        role: Role::User,
        content: Content::text("hello").unwrap(),
        stop_reason: None,
        usage: Usage::default(),
    }
}

fn assistant(stop: &str, calls: usize) -> Message {
    let mut blocks = vec![r#"{"type":"text","text":"So."}"#.to_owned()];
    blocks.extend((0..calls).map(|i| {
        format!(r#"{{"type":"tool_use","id":"toolu_{i}","name":"get_time","input":{{}}}}"#)
    }));
    Message {
        role: Role::Assistant,
        content: Content::parse(format!("[{}]", blocks.join(","))).unwrap(),
        stop_reason: Some(stop.into()),
        usage: Usage { output_tokens: 10, ..Usage::default() },
    }
}

fn bounds(rounds: u32) -> Bounds {
    Bounds { rounds, tokens: None, cost: None }
}

fn after(messages: &[Message], bounds: Bounds) -> Step {
    AgentLoop::resume(messages, bounds).unwrap().step().clone()
}

fn finish(stop_reason: StopReason) -> Step {
    Step::Finish(Finish { stop_reason, limited: None })
}

#[test]
fn every_stop_reason_has_one_outcome() {
    let unknown = |word: &str| StopReason::Unknown { model_stop_reason: word.into() };
    let table = [
        ("end_turn", finish(StopReason::EndTurn)),
        ("stop_sequence", finish(StopReason::StopSequence { stop_sequence: None })),
        ("max_tokens", finish(StopReason::MaxTokens)),
        ("model_context_window_exceeded", finish(StopReason::ModelContextWindowExceeded)),
        ("refusal", finish(StopReason::Refusal(Refusal::default()))),
        ("pause_turn", Step::CallModel { is_first: false }),
        ("compaction", Step::CallModel { is_first: false }),
        ("brand_new", finish(unknown("brand_new"))),
    ];
    for (stop, expected) in table {
        assert_eq!(after(&[user(), assistant(stop, 1)], bounds(10)), expected, "{stop}");
    }
}

#[test]
fn a_reply_with_calls_is_followed_by_their_execution() {
    let Step::CallTools(calls) = after(&[user(), assistant("tool_use", 2)], bounds(10)) else {
        panic!("expected calls");
    };
    let ids: Vec<_> = calls.iter().map(|call| call.tool_use_id.as_str()).collect();
    assert_eq!(ids, ["toolu_0", "toolu_1"]);
}

#[test]
fn a_tool_use_stop_without_calls_ends_the_run() {
    let step = after(&[user(), assistant("tool_use", 0)], bounds(10));
    assert_eq!(step, finish(StopReason::EndTurn));
}

#[test]
fn the_round_limit_allows_one_final_request() {
    let mut log = vec![user()];
    for _ in 0..2 {
        log.extend([assistant("tool_use", 1), user()]);
    }
    assert_eq!(after(&log, bounds(2)), Step::Exhausted(LimitKind::Rounds));
    log.push(assistant("tool_use", 1));
    let limited = Finish { stop_reason: StopReason::EndTurn, limited: Some(LimitKind::Rounds) };
    assert_eq!(after(&log, bounds(2)), Step::Finish(limited));
}

#[test]
fn the_token_limit_allows_one_final_request() {
    let log = [user(), assistant("tool_use", 1), user()];
    let bounds = Bounds { rounds: 10, tokens: Some(10), cost: None };
    assert_eq!(after(&log, bounds), Step::Exhausted(LimitKind::Tokens));
}

#[test]
fn the_cost_limit_allows_one_final_request() {
    let price = Price { output: 2_000_000, ..Price::default() };
    let log = [user(), assistant("tool_use", 1), user()];
    let bounds = |limit| Bounds { rounds: 10, tokens: None, cost: Some((limit, price)) };
    assert_eq!(after(&log, bounds(20)), Step::Exhausted(LimitKind::Cost));
    assert_eq!(after(&log, bounds(21)), Step::CallModel { is_first: false });
}

#[test]
fn a_turn_that_pauses_too_often_ends_the_run() {
    let mut log = vec![user()];
    log.extend((0..=MAX_PAUSES).map(|_| assistant("pause_turn", 0)));
    let unknown = StopReason::Unknown { model_stop_reason: "pause_turn".into() };
    assert_eq!(after(&log, bounds(10)), finish(unknown));
}

#[test]
fn a_thousand_rounds_need_no_recursion() {
    let mut agent = AgentLoop::new(bounds(1000));
    for round in 0..1000 {
        assert_eq!(*agent.step(), Step::CallModel { is_first: round == 0 });
        agent.push(&assistant("tool_use", 1)).unwrap();
        assert!(matches!(agent.step(), Step::CallTools(calls) if calls.len() == 1));
        agent.push(&user()).unwrap();
    }
    assert_eq!(*agent.step(), Step::Exhausted(LimitKind::Rounds));
}

fn log() -> impl Strategy<Value = Vec<Message>> {
    let round = prop_oneof![
        (1..4_usize).prop_map(|calls| vec![assistant("tool_use", calls), user()]),
        Just(vec![assistant("pause_turn", 0)]),
    ];
    let last = prop::sample::select(vec!["end_turn", "refusal", "max_tokens", "stop_sequence"]);
    (prop::collection::vec(round, 0..8), last).prop_map(|(rounds, last)| {
        let mut log = vec![user()];
        log.extend(rounds.into_iter().flatten());
        log.push(assistant(last, 0));
        log
    })
}

proptest! {
    #[test]
    fn the_resumed_step_equals_the_live_one(log in log(), rounds in 0..6_u32) {
        let mut live = AgentLoop::new(bounds(rounds));
        for (index, message) in log.iter().enumerate().skip(1) {
            let seen: Vec<Message> = log.iter().take(index).cloned().collect();
            prop_assert_eq!(&after(&seen, bounds(rounds)), live.step());
            live.push(message).unwrap();
        }
    }
}

#[test]
fn sampling_usage_counts_equally_before_and_after_a_takeover() {
    let bounds = Bounds { tokens: Some(100), ..bounds(10) };
    let asked = Usage { output_tokens: 90, ..Usage::default() };
    let history = [user(), assistant("tool_use", 1), user()];
    let mut uninterrupted = AgentLoop::resume(&history[..2], bounds).unwrap();
    uninterrupted.add_sampling_usage(asked);
    assert!(
        matches!(uninterrupted.step(), Step::CallTools(_)),
        "the calls of a round are answered"
    );
    uninterrupted.push(&history[2]).unwrap();
    let mut taken_over = AgentLoop::resume(&history, bounds).unwrap();
    assert_eq!(*taken_over.step(), Step::CallModel { is_first: false });
    taken_over.add_sampling_usage(asked);
    assert_eq!(taken_over.step(), uninterrupted.step());
    assert_eq!(*uninterrupted.step(), Step::Exhausted(LimitKind::Tokens));
}
