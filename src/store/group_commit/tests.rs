use std::time::Duration;

use serde_json::value::RawValue;
use sqlx::PgPool;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::domain::claim::Fence;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{RunId, SessionId, TenantId, WorkerId};
use crate::domain::message::{Content, Message, Role};
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::store::connections::Connections;
use crate::store::step::{EncodedStep, NewMessage, StepCommit, Written};
use crate::store::testing::{TestDatabase, database};
use crate::store::tests::until_a_lock_is_waited_for;

/// Running runs in sessions of their own.
struct Bed {
    pool: PgPool,
    group: GroupCommit<EncodedStep>,
    runs: Vec<(SessionId, Fence)>,
    _database: TestDatabase,
}

async fn bed(count: usize) -> Bed {
    let database = database().await;
    let pool = database.pool(4);
    let worker = WorkerId::new();
    let mut runs = Vec::new();
    for _ in 0..count {
        let (session, run_id) = (SessionId::new(), RunId::new());
        sqlx::query(
            "WITH session AS (
                 INSERT INTO sessions (id, tenant_id, model, settings) VALUES ($1, $2, 'm', '{}')
             )
             INSERT INTO runs (id, session_id, tenant_id, status, accepted_seq, message_id, input,
                               fingerprint, attempt, lease_owner, lease_until)
             VALUES ($3, $1, $2, 'running', 1, 'm', '[]', '', 1, $4, now() + interval '1 hour')",
        )
        .bind(session.as_uuid())
        .bind(TenantId::DEFAULT.as_uuid())
        .bind(run_id.as_uuid())
        .bind(worker.as_uuid())
        .execute(&pool)
        .await
        .unwrap();
        runs.push((session, Fence { run_id, attempt: 1, worker }));
    }
    let group = GroupCommit::new(Connections::from(pool.clone()));
    Bed { pool, group, runs, _database: database }
}

impl Bed {
    fn step(&self, run: usize, step: &StepCommit<'_>) -> EncodedStep {
        let (session, fence) = self.runs[run];
        EncodedStep::of(session, fence, 0, step).unwrap()
    }

    /// The transactions that wrote steps.
    async fn transactions(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT DISTINCT xmin::text FROM runs WHERE steps = 1")
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }

    /// Takes the turn, as a statement that is under way.
    fn turn(&self) -> Turn<EncodedStep> {
        self.group.hold_turn()
    }

    /// Waits until this number of steps wait for their turn.
    async fn until_waiting(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.group.queue.state().waiting.len() < count {
            assert!(Instant::now() < deadline, "the steps do not wait");
            sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn steps_that_come_during_another_are_written_by_one_statement() {
    let bed = bed(5).await;
    let events = [NewEvent::new(&EventBody::StatusRunning { attempt: 1 })];
    let step = StepCommit { events: &events, ..StepCommit::default() };
    let turn = bed.turn();
    let writes = (0..5).map(|run| bed.group.write(bed.step(run, &step)));
    let (written, ()) = tokio::join!(futures::future::join_all(writes), async {
        bed.until_waiting(5).await;
        turn.write_all().await;
    });
    for written in written {
        let Grouped::Done(Written::Committed(written)) = written.unwrap() else {
            panic!("not written")
        };
        assert_eq!(written.with_events(&events).frames[0].seq, 1);
    }
    assert_eq!(bed.transactions().await.len(), 1);
}

#[tokio::test]
async fn a_step_that_finds_no_other_is_written_at_once() {
    let bed = bed(2).await;
    for run in 0..2 {
        let step = bed.step(run, &StepCommit::default());
        assert!(matches!(bed.group.write(step).await, Ok(Grouped::Done(Written::Committed(_)))));
    }
    assert_eq!(bed.transactions().await.len(), 2);
}

#[tokio::test]
async fn a_turn_that_ends_by_a_defect_leaves_the_steps_to_their_runs() {
    let bed = bed(2).await;
    let turn = bed.turn();
    let (written, ()) = tokio::join!(bed.group.write(bed.step(0, &StepCommit::default())), async {
        bed.until_waiting(1).await;
        drop(turn);
    });
    assert!(matches!(written, Ok(Grouped::Unknown)), "{written:?}");
    let written = bed.group.write(bed.step(1, &StepCommit::default())).await;
    assert!(matches!(written, Ok(Grouped::Done(Written::Committed(_)))), "{written:?}");
}

#[tokio::test]
async fn a_step_whose_run_does_something_else_delays_no_other() {
    let bed = bed(2).await;
    let mut unpolled = std::pin::pin!(bed.group.write(bed.step(0, &StepCommit::default())));
    assert!(futures::poll!(&mut unpolled).is_pending());
    let other = bed.group.write(bed.step(1, &StepCommit::default()));
    let written = timeout(Duration::from_secs(20), other).await.expect("it waits for the first");
    assert!(matches!(written, Ok(Grouped::Done(Written::Committed(_)))), "{written:?}");
    assert!(matches!(unpolled.await, Ok(Grouped::Done(Written::Committed(_)))));
}

#[tokio::test]
async fn a_step_that_violates_a_constraint_leaves_the_others_to_their_runs() {
    let bed = bed(3).await;
    let call = || ToolCall {
        tool_use_id: "twice".into(),
        name: "get_time".into(),
        input: RawValue::from_string("{}".into()).unwrap(),
    };
    let content = Content::parse(r#"[{"type":"x"}]"#.into()).unwrap();
    let message = Message { role: Role::User, content, stop_reason: None, usage: Usage::default() };
    let messages = [NewMessage { message_id: "msg_1".into(), model: None, message }];
    let planned = [call(), call()];
    let broken = StepCommit { messages: &messages, planned: &planned, ..StepCommit::default() };
    let plain = StepCommit::default();
    let turn = bed.turn();
    let steps = [&plain, &broken, &plain].into_iter().enumerate();
    let writes = steps.map(|(run, step)| bed.group.write(bed.step(run, step)));
    let (written, ()) = tokio::join!(futures::future::join_all(writes), async {
        bed.until_waiting(3).await;
        turn.write_all().await;
    });
    assert!(
        written.iter().all(|written| matches!(written, Ok(Grouped::NotWritten))),
        "{written:?}"
    );
    assert!(bed.transactions().await.is_empty());
    assert!(bed.group.write(bed.step(1, &broken)).await.is_err());
    let repeated = bed.group.write(bed.step(0, &plain)).await;
    assert!(matches!(repeated, Ok(Grouped::Done(Written::Committed(_)))), "{repeated:?}");
}

#[tokio::test]
async fn the_step_of_a_stopped_run_is_not_written() {
    let bed = bed(2).await;
    let turn = bed.turn();
    let stopped = bed.group.write(bed.step(0, &StepCommit::default()));
    tokio::select! {
        biased;
        _ = stopped => panic!("it has no turn"),
        () = bed.until_waiting(1) => {}
    }
    let other = bed.group.write(bed.step(1, &StepCommit::default()));
    let (written, ()) = tokio::join!(other, turn.write_all());
    assert!(matches!(written, Ok(Grouped::Done(Written::Committed(_)))), "{written:?}");
    assert_eq!(bed.transactions().await.len(), 1);
}

#[tokio::test]
async fn a_large_step_does_not_delay_others() {
    let bed = bed(1).await;
    let text = "x".repeat(MAX_SIZE + 1);
    let events = [NewEvent { id: "evt_1".into(), kind: "x", body: format!("\"{text}\"") }];
    let step = bed.step(0, &StepCommit { events: &events, ..StepCommit::default() });
    assert!(matches!(bed.group.write(step).await, Ok(Grouped::NotWritten)));
    assert!(bed.transactions().await.is_empty());
}

#[tokio::test]
async fn steps_beyond_the_limit_of_a_statement_are_written_by_the_next_one() {
    let bed = bed(MAX_WRITES + 3).await;
    let events = [NewEvent::new(&EventBody::StatusRunning { attempt: 1 })];
    let step = StepCommit { events: &events, ..StepCommit::default() };
    let turn = bed.turn();
    let writes = (0..MAX_WRITES + 3).map(|run| bed.group.write(bed.step(run, &step)));
    let (written, ()) = tokio::join!(futures::future::join_all(writes), async {
        bed.until_waiting(MAX_WRITES + 3).await;
        turn.write_all().await;
    });
    for written in written {
        assert!(matches!(written, Ok(Grouped::Done(Written::Committed(_)))), "{written:?}");
    }
    assert_eq!(bed.transactions().await.len(), 2);
}

#[tokio::test]
async fn a_step_behind_a_full_group_of_older_ones_is_written() {
    let bed = bed(MAX_WRITES + 1).await;
    let turn = bed.turn();
    let mut replies = Vec::new();
    for run in 1..=MAX_WRITES {
        let (reply, written) = oneshot::channel();
        let step = bed.step(run, &StepCommit::default());
        bed.group.queue.state().waiting.push(Waiting { write: step, reply });
        replies.push(written);
    }
    let write = bed.group.write(bed.step(0, &StepCommit::default()));
    let (written, ()) = tokio::join!(write, async {
        bed.until_waiting(MAX_WRITES + 1).await;
        turn.write_all().await;
    });
    assert!(matches!(written, Ok(Grouped::Done(Written::Committed(_)))), "{written:?}");
    for reply in replies {
        assert!(matches!(reply.await, Ok(Ok(Grouped::Done(Written::Committed(_))))));
    }
}

#[tokio::test]
async fn a_slow_statement_delays_others_for_a_limited_time() {
    let bed = bed(2).await;
    let mut other = bed.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM runs WHERE id = $1 FOR UPDATE")
        .bind(bed.runs[0].1.run_id.as_uuid())
        .execute(&mut *other)
        .await
        .unwrap();
    let mut slow = std::pin::pin!(bed.group.write(bed.step(0, &StepCommit::default())));
    assert!(futures::poll!(&mut slow).is_pending());
    until_a_lock_is_waited_for(&bed.pool).await;
    let fast = bed.group.write(bed.step(1, &StepCommit::default()));
    let written = timeout(Duration::from_secs(20), fast).await.expect("it waits for the slow one");
    assert!(matches!(written, Ok(Grouped::Done(Written::Committed(_)))), "{written:?}");
    other.commit().await.unwrap();
    assert!(matches!(slow.await, Ok(Grouped::Done(Written::Committed(_)))));
    assert_eq!(bed.group.queue.state().turns, 0);
}
