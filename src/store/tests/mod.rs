//! Tests of the guarantees of the statements: claims, fences, order and atomicity.

mod accept_groups;
mod accepting;
mod claims;
mod errors;
mod event_reads;
mod orphans;
mod run_queue;
mod statistics;
mod step_columns;
mod step_groups;
mod steps;
mod unstorable_text;
mod verification;

use std::sync::Arc;
use std::time::Duration;
pub(super) use steps::until_a_lock_is_waited_for;

use serde_json::value::RawValue;
use sqlx::PgPool;

use super::accept::{Accepted, AcceptedRun, MAX_QUEUED, NewRun, accept, find_earlier};
use super::claim::{claim_expired, claim_queued, claim_woken};
use super::decisions::{NewDecision, decide, lock_calls};
use super::events::EventRange;
use super::leases::{HeldLease, release, renew, take_back_takeovers};
use super::sessions::NewSession;
use super::step::{
    CallRecord, ChangeRecord, CommitStatus, EncodedStep, NewMessage, NewWait, StepCommit, Written,
    commit, commit_status, write,
};
use super::testing::{TestDatabase, database};
use super::{StoreError, events, messages, runs, session_deletion, sessions, tool_calls};
use crate::domain::claim::Claimed;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{EventId, RunId, SessionId, TenantId, WorkerId};
use crate::domain::message::{Content, Message, Role};
use crate::domain::outcome::Outcome;
use crate::domain::page::Slice;
use crate::domain::permission::{Awaits, Decision};
use crate::domain::run_options::RunOptions;
use crate::domain::run_status::RunStatus;
use crate::domain::session::Settings;
use crate::domain::stop_reason::{ModelStop, StopReason};
use crate::domain::suspicion::{CRASH_LOOP_AFTER, Suspicion};
use crate::domain::tool::{CallState, ToolCall};
use crate::domain::usage::Usage;

/// A database with one session.
struct Bed {
    pool: PgPool,
    session: SessionId,
    database: Arc<TestDatabase>,
}

async fn bed() -> Bed {
    let database = Arc::new(database().await);
    let pool = database.pool(8);
    let session = insert_session(&pool).await;
    Bed { pool, session, database }
}

async fn insert_session(pool: &PgPool) -> SessionId {
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
        external_id: None,
        title: None,
        metadata: RawValue::NULL,
        settings: &settings,
        workspace: None,
        idempotency_key: None,
    };
    sessions::insert(&mut pool.acquire().await.unwrap(), &new).await.unwrap();
    session
}

impl Bed {
    /// Another session of the same database.
    async fn other(&self) -> Self {
        let session = insert_session(&self.pool).await;
        Self { pool: self.pool.clone(), session, database: Arc::clone(&self.database) }
    }

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
            request_event: EventId::new(),
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
        claim_queued(&mut conn, worker, 10).await.unwrap().runs
    }

    async fn commit(&self, run: &Claimed, step: &StepCommit<'_>) -> bool {
        let mut conn = self.pool.acquire().await.unwrap();
        let steps = self.steps(run).await;
        commit(&mut conn, self.session, run.fence, steps, step).await.unwrap().is_some()
    }

    /// Expires all leases.
    async fn expire(&self) {
        sqlx::query(
            "UPDATE runs SET lease_until = now() - interval '1 second' WHERE status = 'running'",
        )
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// Expires all leases so long ago that every pause between takeovers has ended.
    async fn expire_long_ago(&self) {
        sqlx::query(
            "UPDATE runs SET lease_until = now() - interval '1 hour' WHERE status = 'running'",
        )
        .execute(&self.pool)
        .await
        .unwrap();
    }

    async fn takeovers(&self) -> i32 {
        sqlx::query_scalar("SELECT takeovers FROM runs").fetch_one(&self.pool).await.unwrap()
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
