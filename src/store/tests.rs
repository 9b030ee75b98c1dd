//! What the statements promise: claims, fences, order, and all or nothing.

use std::time::Duration;

use serde_json::value::RawValue;
use sqlx::PgPool;

use super::accept::{Accepted, AcceptedRun, MAX_QUEUED, NewRun, accept, find_earlier};
use super::claim::{Renewed, claim_expired, claim_queued, release, renew};
use super::decisions::{NewDecision, decide, lock_calls};
use super::events::Range;
use super::sessions::NewSession;
use super::step::{
    CallRecord, ChangeRecord, Landed, NewMessage, NewWait, StepCommit, commit, landed,
};
use super::testing::{TestDatabase, database};
use super::{StoreError, events, messages, runs, session_deletion, sessions, tool_calls};
use crate::domain::claim::Claimed;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{RunId, SessionId, TenantId, WorkerId};
use crate::domain::message::{Content, Message, Role};
use crate::domain::page::Slice;
use crate::domain::permission::{Awaits, Decision};
use crate::domain::run::{ModelStop, Outcome, RunOptions, RunStatus, StopReason};
use crate::domain::session::Settings;
use crate::domain::tool::{CallState, ToolCall};
use crate::domain::usage::Usage;

/// A database with one session.
struct Bed {
    pool: PgPool,
    session: SessionId,
    _database: TestDatabase,
}

async fn bed() -> Bed {
    let database = database().await;
    let pool = database.pool(8);
    let session = SessionId::new();
    let settings = Settings {
        model: "model \"x\"".into(),
        max_tokens: 100,
        system: "s".into(),
        tools: RawValue::from_string("[]".into()).unwrap(),
        ..Settings::default()
    };
    let new = NewSession {
        id: session,
        tenant_id: TenantId::DEFAULT,
        title: None,
        metadata: RawValue::NULL,
        settings: &settings,
        workspace: None,
        made_by: None,
    };
    sessions::insert(&mut pool.acquire().await.unwrap(), &new).await.unwrap();
    Bed { pool, session, _database: database }
}

impl Bed {
    async fn post(&self, key: Option<&str>, worker: Option<WorkerId>) -> Accepted {
        let event = NewEvent::new(&EventBody::UserInterrupt {});
        let new = NewRun {
            id: RunId::new(),
            tenant: TenantId::DEFAULT,
            session_id: self.session,
            message_id: "msg_1",
            input: r#"[{"type":"text","text":"hi"}]"#,
            options: &RunOptions::default(),
            idempotency_key: key,
            client_message_id: None,
            fingerprint: b"f",
            event: &event,
            worker,
            may_wait: true,
            versions: None,
        };
        accept(&mut self.pool.acquire().await.unwrap(), &new).await.unwrap()
    }

    async fn posted(&self) -> AcceptedRun {
        match self.post(None, None).await {
            Accepted::Run(run) => *run,
            refused @ (Accepted::Refused | Accepted::Repeated) => panic!("{refused:?}"),
        }
    }

    async fn steps(&self, run: &Claimed) -> i32 {
        sqlx::query_scalar("SELECT steps FROM runs WHERE id = $1")
            .bind(run.fence.run_id.as_uuid())
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    async fn claim(&self, worker: WorkerId) -> Vec<Claimed> {
        let mut conn = self.pool.acquire().await.unwrap();
        claim_queued(&mut conn, worker, None, 10).await.unwrap().runs
    }

    async fn commit(&self, run: &Claimed, step: &StepCommit<'_>) -> bool {
        let mut conn = self.pool.acquire().await.unwrap();
        let steps = self.steps(run).await;
        commit(&mut conn, self.session, run.fence, steps, step).await.unwrap().is_some()
    }

    /// Lets all leases run out.
    async fn expire(&self) {
        sqlx::query(
            "UPDATE runs SET lease_until = now() - interval '1 second' WHERE status = 'running'",
        )
        .execute(&self.pool)
        .await
        .unwrap();
    }

    async fn count(&self, table: &str) -> i64 {
        let query = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar(query).fetch_one(&self.pool).await.unwrap()
    }
}

fn message(role: Role, content: &str) -> NewMessage {
    let stop_reason = (role == Role::Assistant).then_some(ModelStop::ToolUse);
    let content = Content::parse(content.into()).unwrap();
    let usage = Usage { output_tokens: 7, ..Usage::default() };
    NewMessage {
        message_id: "msg_x".into(),
        model: None,
        message: Message { role, content, stop_reason, usage },
    }
}

fn call(id: &str) -> ToolCall {
    let input = RawValue::from_string("{}".into()).unwrap();
    ToolCall { tool_use_id: id.into(), name: "get_time".into(), input }
}

fn outcome() -> Outcome {
    let stop_reason = StopReason::EndTurn;
    let (limited, error, output) = (None, None, None);
    Outcome { stop_reason, limited, output_text: "ok".into(), error, output }
}

fn settling(outcome: &Outcome) -> StepCommit<'_> {
    StepCommit { settles: Some((RunStatus::Completed, outcome)), ..StepCommit::default() }
}

#[tokio::test]
async fn two_claimers_never_get_the_same_run() {
    let bed = bed().await;
    bed.posted().await;
    let (one, two) = tokio::join!(bed.claim(WorkerId::new()), bed.claim(WorkerId::new()));
    assert_eq!(one.len() + two.len(), 1);
}

#[tokio::test]
async fn a_session_has_one_live_run_and_the_others_follow_in_order() {
    let bed = bed().await;
    let posted = [bed.posted().await, bed.posted().await, bed.posted().await];
    assert_eq!(posted.map(|run| run.queued), [1, 2, 3]);
    let worker = WorkerId::new();
    let mut order = Vec::new();
    for _ in 0..3 {
        let [run] = <[Claimed; 1]>::try_from(bed.claim(worker).await).unwrap();
        assert!(bed.claim(worker).await.is_empty(), "one is live");
        assert!(bed.commit(&run, &StepCommit { dequeues: true, ..StepCommit::default() }).await);
        assert!(bed.commit(&run, &settling(&outcome())).await);
        order.push(run.fence.run_id);
    }
    assert!(order.is_sorted(), "run ids are time-ordered");
}

#[tokio::test]
async fn an_idle_session_begins_at_once_and_a_busy_one_queues() {
    let bed = bed().await;
    let worker = WorkerId::new();
    let Accepted::Run(first) = bed.post(None, Some(worker)).await else { panic!("refused") };
    let begun = first.begun.expect("it begins");
    assert_eq!((begun.fence.attempt, begun.last_message_seq, first.queued), (1, 1, 0));
    let kinds: Vec<&str> = first.frames.iter().map(|frame| frame.kind.as_str()).collect();
    assert_eq!(kinds, ["user.interrupt", "session.status_running", "span.model_request_start"]);
    let json: serde_json::Value = serde_json::from_slice(&first.frames[2].json()).unwrap();
    assert_eq!((&json["seq"], &json["model"]), (&3.into(), &"model \"x\"".into()));

    let Accepted::Run(second) = bed.post(None, Some(worker)).await else { panic!("refused") };
    assert!(second.begun.is_none());
    assert_eq!((second.queued, second.frames.len()), (1, 1));
    assert!(bed.commit(&begun, &settling(&outcome())).await);
    assert_eq!(bed.claim(worker).await.len(), 1);
}

#[tokio::test]
async fn of_many_posts_at_once_one_begins_and_as_many_as_allowed_wait() {
    let bed = bed().await;
    let worker = Some(WorkerId::new());
    let posts = futures::future::join_all((0..60).map(|_| bed.post(None, worker))).await;
    let (mut begun, mut queued, mut refused) = (0, 0, 0);
    for post in posts {
        match post {
            Accepted::Run(run) if run.begun.is_some() => begun += 1,
            Accepted::Run(_) => queued += 1,
            Accepted::Refused => refused += 1,
            Accepted::Repeated => panic!("no key was given"),
        }
    }
    assert_eq!((begun, queued, refused), (1, MAX_QUEUED, 60 - 1 - MAX_QUEUED));
}

#[tokio::test]
async fn of_many_posts_with_one_key_one_is_a_run() {
    let bed = bed().await;
    let posts = futures::future::join_all((0..20).map(|_| bed.post(Some("k"), None))).await;
    let runs = posts.iter().filter(|post| matches!(post, Accepted::Run(_))).count();
    let repeated = posts.iter().filter(|post| matches!(post, Accepted::Repeated)).count();
    assert_eq!((runs, repeated), (1, 19));
    let mut conn = bed.pool.acquire().await.unwrap();
    let earlier =
        find_earlier(&mut conn, TenantId::DEFAULT, bed.session, Some("k"), None).await.unwrap();
    assert_eq!(earlier.unwrap().fingerprint, b"f");
    assert_eq!((bed.count("runs").await, bed.count("events").await), (1, 1));
}

#[tokio::test]
async fn a_stale_attempt_writes_nothing() {
    let bed = bed().await;
    bed.posted().await;
    let zombie = bed.claim(WorkerId::new()).await.remove(0);
    bed.expire().await;
    let mut conn = bed.pool.acquire().await.unwrap();
    let holder = claim_expired(&mut conn, WorkerId::new(), 10).await.unwrap().runs.remove(0);
    assert_eq!((zombie.fence.attempt, holder.fence.attempt, holder.takeovers), (1, 2, 2));

    let messages = [message(Role::User, r#"[{"type":"text","text":"x"}]"#)];
    let event = [NewEvent::new(&EventBody::UserInterrupt {})];
    let step = StepCommit { messages: &messages, events: &event, ..StepCommit::default() };
    assert!(!bed.commit(&zombie, &step).await);
    assert!(!bed.commit(&zombie, &settling(&outcome())).await);
    assert_eq!((bed.count("messages").await, bed.count("events").await), (0, 1));
    assert!(bed.commit(&holder, &step).await);
    assert_eq!((bed.count("messages").await, bed.count("events").await), (1, 2));
}

#[tokio::test]
async fn a_renewed_lease_is_not_taken_and_a_released_one_is_at_once() {
    let bed = bed().await;
    bed.posted().await;
    let owner = WorkerId::new();
    let run = bed.claim(owner).await.remove(0);
    let mut conn = bed.pool.acquire().await.unwrap();
    bed.expire().await;
    let run_id = run.fence.run_id;
    let renewed = Renewed { run_id, is_cancelled: false };
    assert_eq!(renew(&mut conn, owner, &[run_id]).await.unwrap(), [renewed]);
    assert!(claim_expired(&mut conn, WorkerId::new(), 10).await.unwrap().runs.is_empty());
    let nothing = renew(&mut conn, owner, &[RunId::new()]).await.unwrap();
    assert_eq!(nothing, [], "a run that nobody drives runs out");
    runs::request_cancel(&mut conn, TenantId::DEFAULT, bed.session, run.fence.run_id)
        .await
        .unwrap();
    let renewed = Renewed { run_id, is_cancelled: true };
    assert_eq!(renew(&mut conn, owner, &[run_id]).await.unwrap(), [renewed]);
    release(&mut conn, run.fence, false).await.unwrap();
    let taken = claim_expired(&mut conn, WorkerId::new(), 10).await.unwrap().runs;
    assert_eq!((taken[0].fence.attempt, taken[0].takeovers, taken[0].is_cancelled), (2, 1, true));
}

#[tokio::test]
async fn a_reply_and_its_ledger_rows_are_stored_together_and_kept_byte_for_byte() {
    let bed = bed().await;
    let worker = Some(WorkerId::new());
    let Accepted::Run(accepted) = bed.post(None, worker).await else { panic!("refused") };
    let run = accepted.begun.unwrap();
    let content =
        "[{\"type\":\"tool_use\",  \"id\":\"b\",\"name\":\"f\",\"input\":{\"n\":1e3,\"n\":2}}]";
    let reply = [message(Role::Assistant, content)];
    let planned = [call("b"), call("a")];
    let step = StepCommit {
        messages: &reply,
        planned: &planned,
        usage: Some(reply[0].message.usage),
        ..StepCommit::default()
    };
    assert!(bed.commit(&run, &step).await);
    let mut conn = bed.pool.acquire().await.unwrap();
    let stored = messages::list_of_run(&mut conn, run.fence.run_id).await.unwrap();
    assert_eq!(stored[1].message.content.as_str(), content);
    assert_eq!(stored[1].message.usage.output_tokens, 7);
    let rows = tool_calls::list(&mut conn, bed.session, 2).await.unwrap();
    let states: Vec<_> = rows.iter().map(|row| (row.tool_use_id.as_str(), row.state)).collect();
    assert_eq!(states, [("b", CallState::Planned), ("a", CallState::Planned)]);

    // The same call twice breaks a key, and then nothing of the step is stored.
    let twice = [call("c"), call("c")];
    let broken = StepCommit { messages: &reply, planned: &twice, ..StepCommit::default() };
    assert!(commit(&mut conn, bed.session, run.fence, 1, &broken).await.is_err());
    assert_eq!(messages::list_of_run(&mut conn, run.fence.run_id).await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_ledger_keeps_what_a_takeover_must_know() {
    let bed = bed().await;
    let Accepted::Run(accepted) = bed.post(None, Some(WorkerId::new())).await else {
        panic!("refused")
    };
    let run = accepted.begun.unwrap();
    let reply = [message(Role::Assistant, r#"[{"type":"x"}]"#)];
    let planned = [call("a")];
    let step = StepCommit { messages: &reply, planned: &planned, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let change = ChangeRecord {
        path: "a.txt".into(),
        before: None,
        after: b"after".to_vec(),
        result: "Written.".into(),
    };
    let started = [CallRecord {
        is_execution: true,
        change: Some(change),
        ..CallRecord::new("a", CallState::Started)
    }];
    let step = StepCommit { recorded_message_seq: 2, recorded: &started, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let done = [CallRecord { result: Some("ok".into()), ..CallRecord::new("a", CallState::Done) }];
    let step = StepCommit { recorded_message_seq: 2, recorded: &done, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let mut conn = bed.pool.acquire().await.unwrap();
    let row = tool_calls::list(&mut conn, bed.session, 2).await.unwrap().remove(0);
    assert_eq!((row.state, row.result.as_deref()), (CallState::Done, Some("ok")));
    assert_eq!((row.hash_before, row.hash_after), (None, Some(b"after".to_vec())));
    assert_eq!(row.change, Some(("a.txt".into(), "Written.".into())));
    let executions: i32 = sqlx::query_scalar("SELECT executions FROM tool_calls")
        .fetch_one(&mut *conn)
        .await
        .unwrap();
    assert_eq!(executions, 1);
}

/// Waits until somebody waits for a lock.
async fn until_somebody_waits(pool: &PgPool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock')";
    while !sqlx::query_scalar::<_, bool>(waits).fetch_one(pool).await.unwrap() {
        assert!(tokio::time::Instant::now() < deadline, "nobody waits for a lock");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_answer_that_is_being_stored_is_waited_for_before_a_call_is_given_up() {
    let bed = bed().await;
    let Accepted::Run(accepted) = bed.post(None, Some(WorkerId::new())).await else {
        panic!("refused")
    };
    let run = accepted.begun.unwrap();
    let reply = [message(Role::Assistant, r#"[{"type":"x"}]"#)];
    let planned = [call("a")];
    let step = StepCommit { messages: &reply, planned: &planned, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let (awaits, within) = (Awaits::Approval, Duration::ZERO);
    let wait = Some(NewWait { awaits, within, reason: None, diff: None });
    let waiting = [CallRecord { wait, ..CallRecord::new("a", CallState::Planned) }];
    let stop_reason = StopReason::RequiresAction { event_ids: vec!["a".into()] };
    let waits = Some(&stop_reason);
    let (recorded, recorded_message_seq) = (&waiting[..], 2);
    let step = StepCommit { recorded_message_seq, recorded, waits, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);

    let mut answering = bed.pool.begin().await.unwrap();
    let ids = ["a".to_owned()];
    let calls = lock_calls(&mut answering, TenantId::DEFAULT, bed.session, &ids).await.unwrap();
    let allow = NewDecision { decision: Decision::Allow, message: None, input: None };
    decide(&mut answering, &calls.unwrap()[0], &allow).await.unwrap();
    let mut conn = bed.pool.acquire().await.unwrap();
    let (rows, ()) = tokio::join!(tool_calls::list_final(&mut conn, bed.session, 2), async {
        until_somebody_waits(&bed.pool).await;
        answering.commit().await.unwrap();
    });
    let wait = rows.unwrap()[0].wait.clone().unwrap();
    assert_eq!((wait.is_overdue, wait.decision), (true, Some(Decision::Allow)));
}

#[tokio::test]
async fn events_are_numbered_without_a_gap_under_concurrent_writers() {
    let bed = bed().await;
    let posts = futures::future::join_all((0..8).map(|_| bed.posted())).await;
    assert_eq!(posts.len(), 8);
    let runs: Vec<RunId> = {
        let mut conn = bed.pool.acquire().await.unwrap();
        let filter = runs::Filter {
            tenant: TenantId::DEFAULT,
            session_id: bed.session,
            only: None,
            status: None,
            slice: Slice::first(100),
        };
        runs::list(&mut conn, filter).await.unwrap().iter().map(|run| run.id).collect()
    };
    let append = async |run_id: RunId| {
        let events = [(); 5].map(|()| NewEvent::new(&EventBody::UserInterrupt {}));
        let mut conn = bed.pool.acquire().await.unwrap();
        events::append(&mut conn, bed.session, Some(run_id), &events).await.unwrap();
    };
    futures::future::join_all(runs.into_iter().map(append)).await;
    let range = Range { session_id: bed.session, run_id: None, after: 0, limit: 1000 };
    let frames = events::list(&mut bed.pool.acquire().await.unwrap(), range).await.unwrap();
    let numbers: Vec<i64> = frames.iter().map(|frame| frame.seq).collect();
    assert_eq!(numbers, (1..=48).collect::<Vec<i64>>());
}

#[tokio::test]
async fn events_are_read_up_to_a_number_or_a_size_and_the_last_piece_says_so() {
    let bed = bed().await;
    let run = bed.posted().await.frames[0].run_id.unwrap();
    let small = NewEvent::new(&EventBody::UserInterrupt {});
    let large = Content::text(&"x".repeat(1000)).unwrap();
    let large = NewEvent::new(&EventBody::AgentMessage { content: large });
    let mut conn = bed.pool.acquire().await.unwrap();
    let all = [&small, &small, &large, &small, &large].map(Clone::clone);
    events::append(&mut conn, bed.session, Some(run), &all).await.unwrap();
    let mut read = async |run_id, after, limit, bytes| {
        let range = Range { session_id: bed.session, run_id, after, limit };
        let piece = events::read_some(&mut conn, range, bytes).await.unwrap();
        let numbers: Vec<i64> = piece.frames.iter().map(|frame| frame.seq).collect();
        (numbers, piece.is_last)
    };
    assert_eq!(read(None, 1, 100, 1_000_000).await, (vec![2, 3, 4, 5, 6], true));
    assert_eq!(read(None, 1, 2, 1_000_000).await, (vec![2, 3], false));
    assert_eq!(read(None, 1, 100, 1000).await, (vec![2, 3, 4], false));
    assert_eq!(read(None, 3, 100, 1).await, (vec![4], false));
    assert_eq!(read(Some(run), 5, 100, 1000).await, (vec![6], false));
    assert_eq!(read(None, 6, 100, 1000).await, (vec![], true));
    assert_eq!(read(Some(RunId::new()), 1, 100, 1000).await, (vec![], true));
}

#[tokio::test]
async fn whoever_idles_in_a_transaction_loses_it_before_others_stop_waiting_for_its_locks() {
    let database = database().await;
    let pool = super::pool(&database.options(), super::PoolRole::Api);
    let millis = |name: &'static str| {
        sqlx::query_scalar::<_, i32>("SELECT setting::int FROM pg_settings WHERE name = $1")
            .bind(name)
            .fetch_one(&pool)
    };
    let idles = millis("idle_in_transaction_session_timeout").await.unwrap();
    assert!(idles > 0 && idles < millis("lock_timeout").await.unwrap());
}

#[tokio::test]
async fn a_key_that_is_too_long_for_its_index_is_refused_for_good() {
    let bed = bed().await;
    // What does not repeat itself cannot be made shorter.
    let noise: String = (0..400).map(|_| SessionId::new().to_string()).collect();
    let insert = "INSERT INTO seen_files (session_id, tenant_id, path, hash) \
        SELECT id, tenant_id, $2, ''::bytea FROM sessions WHERE id = $1";
    let insert = sqlx::query(insert).bind(bed.session.as_uuid()).bind(noise);
    let error = StoreError::from(insert.execute(&bed.pool).await.unwrap_err());
    assert!(error.is_permanent() && !error.may_pass(), "{error:?}");
}

#[tokio::test]
async fn a_statement_may_pass_whose_session_was_ended_for_standing_still() {
    let database = database().await;
    let raise = "DO $$ BEGIN RAISE 'ended' USING ERRCODE = '25P03'; END $$";
    let ended = sqlx::raw_sql(raise).execute(&database.pool(1)).await.unwrap_err();
    let ended = StoreError::from(ended);
    assert_eq!((ended.may_pass(), ended.is_permanent()), (true, false), "{ended}");
}

#[tokio::test]
async fn a_worker_and_a_client_of_a_deleted_session_write_nothing() {
    let bed = bed().await;
    bed.posted().await;
    let worker = WorkerId::new();
    let run = bed.claim(worker).await.remove(0);
    let (steps, fence) = (bed.steps(&run).await, run.fence);
    let mut conn = bed.pool.acquire().await.unwrap();
    session_deletion::delete(&mut conn, TenantId::DEFAULT, &[bed.session]).await.unwrap();

    let events = [NewEvent::new(&EventBody::StatusRunning { attempt: 1 })];
    let step = StepCommit { events: &events, ..StepCommit::default() };
    assert!(commit(&mut conn, bed.session, fence, steps, &step).await.unwrap().is_none());
    assert_eq!(landed(&mut conn, fence, steps).await.unwrap(), Landed::Fenced);
    assert_eq!(renew(&mut conn, worker, &[fence.run_id]).await.unwrap(), []);
    assert!(matches!(bed.post(None, None).await, Accepted::Refused));
    let left: i64 =
        sqlx::query_scalar("SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM runs)")
            .fetch_one(&mut *conn)
            .await
            .unwrap();
    assert_eq!(left, 0);
}
