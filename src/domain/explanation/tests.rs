use super::*;
use crate::domain::limits::LimitKind;
use crate::domain::outcome::{ErrorType, RunError};
use crate::domain::stop_reason::StopReason;

/// Returns noon plus this many seconds.
fn at(seconds: i64) -> Timestamp {
    "2026-11-21T12:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(seconds)
}

fn id(number: u128) -> RunId {
    uuid::Uuid::from_u128(number).into()
}

/// A run that a worker claimed at second 5, with a lease until second 40; it is second 30.
fn running() -> Facts {
    Facts {
        now: at(30),
        run_id: id(7),
        status: RunStatus::Running,
        created_at: at(0),
        started_at: Some(at(5)),
        finished_at: None,
        cancel_requested_at: None,
        lease_until: Some(at(40)),
        limit_seconds: None,
        outcome: None,
        takeovers: 0,
        queue_position: None,
        queue: None,
        behind: None,
        idle_since: None,
        calls: Vec::new(),
        waiting_since: None,
        wake_at: None,
        latest: Some((Latest::Request, at(6))),
    }
}

fn queued() -> Facts {
    let base = running();
    Facts {
        status: RunStatus::Queued,
        started_at: None,
        lease_until: None,
        latest: None,
        queue_position: Some(1),
        ..base
    }
}

fn call(name: &str, state: CallState, since: i64, deadline: Option<i64>) -> OpenCall {
    OpenCall {
        tool_use_id: format!("toolu_{name}"),
        name: name.to_owned(),
        state,
        since: at(since),
        awaits: None,
        deadline: deadline.map(at),
    }
}

/// Compares a complete explanation: cause, beginning, deadline and remedy.
#[track_caller]
fn check(
    facts: &Facts,
    expected: (Option<WaitsFor>, i64, Option<i64>, Option<RunId>),
    sentence: &str,
) {
    let (waits_for, since, deadline, cancel) = expected;
    let whole = Explanation {
        waits_for,
        since: at(since),
        deadline: deadline.map(at),
        cancel,
        sentence: sentence.to_owned(),
    };
    assert_eq!(facts.explain(), whole);
}

#[test]
fn a_run_behind_others_waits_for_the_first_of_them() {
    let facts = Facts { queue_position: Some(3), behind: Some(id(9)), ..queued() };
    check(
        &facts,
        (Some(WaitsFor::Queue), 0, None, Some(id(9))),
        &format!("The run is number 3 in its session's queue; {} goes first.", id(9)),
    );
}

#[test]
fn the_first_run_in_the_queue_waits_for_a_worker_since_the_session_became_idle() {
    for (idle_since, since) in [(None, 0), (Some(at(20)), 20), (Some(at(-20)), 0)] {
        check(
            &Facts { idle_since, ..queued() },
            (Some(WaitsFor::Worker), since, None, Some(id(7))),
            &format!(
                "The run has been the first in its session's queue since {:.6}, and no worker has \
                 claimed it yet.",
                at(since)
            ),
        );
    }
}

#[test]
fn a_run_that_can_start_has_its_position_in_the_queue_of_all_sessions() {
    let queue = Some(RunQueuePosition { position: 12, length: 400 });
    check(
        &Facts { queue, ..queued() },
        (Some(WaitsFor::Worker), 0, None, Some(id(7))),
        "The run has been the first in its session's queue since 2026-11-21T12:00:00.000000Z, and no worker \
         has claimed it yet. It is number 12 of 400 in the queue of all sessions.",
    );
}

#[test]
fn a_run_during_which_several_workers_stopped_is_taken_over_after_a_pause() {
    let expected = (Some(WaitsFor::Worker), 28, None, Some(id(7)));
    check(
        &Facts { takeovers: 2, lease_until: Some(at(28)), ..running() },
        expected,
        "Several workers in a row stopped during the run, the last one at 2026-11-21T12:00:28.000000Z. \
         Another worker takes it over after a pause, when it executes no other run like this one.",
    );
}

#[test]
fn a_run_waits_for_the_model_reply() {
    let expected = (Some(WaitsFor::Model), 6, None, Some(id(7)));
    let asked =
        "The run waits for the model, which received the request at 2026-11-21T12:00:06.000000Z.";
    check(&running(), expected, asked);
    let limited = |seconds| Facts { limit_seconds: Some(seconds), ..running() };
    let soon = format!("{asked} Its time limit is at 2026-11-21T12:01:05.000000Z.");
    check(&limited(60), expected, &soon);
    let over = format!(
        "{asked} Its time limit passed at 2026-11-21T12:00:15.000000Z: no tool is called after this reply."
    );
    check(&limited(10), expected, &over);
}

#[test]
fn a_failed_request_waits_for_its_next_try() {
    let rescheduled = |failures, retry_at| {
        let latest = Latest::Rescheduled { failures, retry_at: at(retry_at) };
        Facts { latest: Some((latest, at(25))), ..running() }
    };
    let waits = |times: &str| {
        format!("The model {times}; the next try is due at 2026-11-21T12:00:35.000000Z.")
    };
    let expected = (Some(WaitsFor::Retry), 25, Some(35), Some(id(7)));
    check(&rescheduled(1, 35), expected, &waits("failed once"));
    check(&rescheduled(3, 35), expected, &waits("failed 3 times in a row"));
    let alone = waits("is unavailable and its circuit breaker is open");
    check(&rescheduled(0, 35), expected, &alone);
    check(
        &rescheduled(3, 28),
        (Some(WaitsFor::Model), 28, None, Some(id(7))),
        "The run waits for the model, which received the request at 2026-11-21T12:00:28.000000Z.",
    );
}

#[test]
fn open_calls_are_named_and_the_latest_deadline_counts() {
    let launch = call("launch", CallState::Started, 20, Some(50));
    let ponder = call("ponder", CallState::Started, 10, Some(45));
    let later = call("later", CallState::Planned, 10, None);
    let one = Facts { calls: vec![launch.clone()], ..running() };
    check(
        &one,
        (Some(WaitsFor::Tool), 20, Some(50), Some(id(7))),
        "The run waits for the call launch (toolu_launch, which started at 2026-11-21T12:00:20.000000Z).",
    );
    let both = Facts { calls: vec![ponder, launch.clone()], ..running() };
    let Explanation { since, deadline, .. } = both.explain();
    assert_eq!((since, deadline), (at(10), Some(at(50))));
    check(
        &Facts { calls: vec![launch, later], ..running() },
        (Some(WaitsFor::Tool), 10, None, Some(id(7))),
        "The run waits for the calls launch (toolu_launch, which started at 2026-11-21T12:00:20.000000Z), \
         later (toolu_later, which was requested at 2026-11-21T12:00:10.000000Z).",
    );
}

#[test]
fn a_lost_worker_takes_precedence_over_open_calls() {
    let facts = Facts {
        lease_until: Some(at(28)),
        cancel_requested_at: Some(at(27)),
        calls: vec![call("launch", CallState::Started, 20, None)],
        ..running()
    };
    check(
        &facts,
        (Some(WaitsFor::Worker), 28, Some(29), Some(id(7))),
        "The worker of the run has been lost since 2026-11-21T12:00:28.000000Z; another worker with a free \
         slot takes it over within a second.",
    );
}

#[test]
fn a_live_worker_has_until_the_end_of_its_lease() {
    let expected = |since| (Some(WaitsFor::Worker), since, Some(40), Some(id(7)));
    check(
        &Facts { latest: None, ..running() },
        expected(5),
        "A worker claimed the run at 2026-11-21T12:00:05.000000Z and has not started it yet.",
    );
    check(
        &Facts { latest: Some((Latest::Other, at(29))), ..running() },
        expected(29),
        "A worker has been executing the run since 2026-11-21T12:00:29.000000Z.",
    );
}

#[test]
fn a_cancelled_run_waits_only_for_its_worker() {
    let calls = vec![call("launch", CallState::Started, 20, None)];
    let facts = Facts { cancel_requested_at: Some(at(29)), calls, ..running() };
    let sentence =
        "Cancellation was requested at 2026-11-21T12:00:29.000000Z; the run has not settled yet.";
    check(&facts, (Some(WaitsFor::Cancel), 29, Some(40), None), sentence);
    let paused = Facts { status: RunStatus::RequiresAction, lease_until: None, ..facts };
    check(&paused, (Some(WaitsFor::Cancel), 29, None, None), sentence);
}

#[test]
fn a_run_that_waits_for_an_answer_names_the_calls() {
    let waits = |calls| Facts {
        status: RunStatus::RequiresAction,
        lease_until: None,
        waiting_since: Some(at(12)),
        wake_at: Some(at(100)),
        calls,
        ..running()
    };
    let done = call("get_time", CallState::Planned, 8, None);
    let ours = OpenCall {
        awaits: Some(Awaits::Approval),
        ..call("write_file", CallState::Planned, 8, Some(100))
    };
    let theirs = OpenCall {
        awaits: Some(Awaits::Client),
        ..call("open_door", CallState::Planned, 9, Some(100))
    };
    check(
        &waits(vec![done.clone(), ours.clone()]),
        (Some(WaitsFor::Approval), 12, Some(100), Some(id(7))),
        "The run waits for a decision on the call write_file (toolu_write_file, which was \
         requested at 2026-11-21T12:00:08.000000Z).",
    );
    check(
        &waits(vec![theirs.clone()]),
        (Some(WaitsFor::ClientTool), 12, Some(100), Some(id(7))),
        "The run waits for the client to answer the call open_door (toolu_open_door, which was \
         requested at 2026-11-21T12:00:09.000000Z).",
    );
    check(
        &waits(vec![theirs, ours]),
        (Some(WaitsFor::Approval), 12, Some(100), Some(id(7))),
        "The run waits for a decision on the call write_file (toolu_write_file, which was \
         requested at 2026-11-21T12:00:08.000000Z), and for the client to answer the call open_door \
         (toolu_open_door, which was requested at 2026-11-21T12:00:09.000000Z).",
    );
    check(
        &Facts { wake_at: Some(at(29)), ..waits(vec![done]) },
        (Some(WaitsFor::Worker), 29, Some(30), Some(id(7))),
        "The calls of the run have been answered since 2026-11-21T12:00:29.000000Z; a worker with a free \
         slot resumes it within a second.",
    );
    check(
        &Facts { waiting_since: None, ..waits(Vec::new()) },
        (Some(WaitsFor::Limit), 5, Some(100), Some(id(7))),
        "The run is paused at a limit and waits for the client.",
    );
}

#[test]
fn a_settled_run_has_no_cause_and_gives_its_reason() {
    let outcome = Outcome {
        stop_reason: StopReason::EndTurn,
        limited: None,
        output_text: String::new(),
        error: None,
        output: None,
    };
    let settled = |status, outcome| Facts {
        status,
        outcome: Some(outcome),
        finished_at: Some(at(28)),
        lease_until: None,
        ..running()
    };
    let error = RunError::new(ErrorType::CrashLoop, "worker after worker stopped");
    for (facts, sentence) in [
        (
            settled(RunStatus::Completed, outcome.clone()),
            "The run completed at 2026-11-21T12:00:28.000000Z: the model finished its answer.",
        ),
        (
            settled(
                RunStatus::Completed,
                Outcome { limited: Some(LimitKind::Rounds), ..outcome.clone() },
            ),
            "The run completed at 2026-11-21T12:00:28.000000Z: the model finished its answer, at the \
             limit of rounds.",
        ),
        (
            settled(RunStatus::Failed, Outcome { error: Some(error), ..outcome.clone() }),
            "The run failed at 2026-11-21T12:00:28.000000Z: worker after worker stopped.",
        ),
        (
            settled(RunStatus::Cancelled, outcome),
            "The run was cancelled at 2026-11-21T12:00:28.000000Z.",
        ),
    ] {
        check(&facts, (None, 28, None, None), sentence);
    }
}
