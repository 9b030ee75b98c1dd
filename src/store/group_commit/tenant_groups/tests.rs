//! Messages that are accepted together, each tenant's by statements of its own.

use std::time::Duration;

use futures::future::join_all;
use sqlx::PgPool;
use tokio::time::{Instant, sleep};

use super::*;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{EventId, RunId, SessionId, WorkerId};
use crate::domain::run_options::RunOptions;
use crate::store::accept::{AcceptStatus, Accepted, EncodedAccept, NewRun, accept};
use crate::store::group_commit::Turn;
use crate::store::testing::{TestDatabase, database};
use crate::store::tests::until_a_lock_is_waited_for;
use crate::store::{PoolRole, pool};

type Group<'a> = Entered<'a, EncodedAccept>;
type Outcome = Result<Grouped<AcceptStatus>, StoreError>;

/// Sessions of two tenants.
struct Bed {
    pool: PgPool,
    groups: TenantGroups<EncodedAccept>,
    options: RunOptions,
    event: NewEvent,
    tenants: [TenantId; 2],
    _database: TestDatabase,
}

async fn bed() -> Bed {
    let database = database().await;
    let groups = TenantGroups::new(pool(&database.options(), PoolRole::Api).into());
    let (pool, options) = (database.pool(8), RunOptions::default());
    let event = NewEvent::new(&EventBody::UserInterrupt {});
    let tenants = [TenantId::new(), TenantId::new()];
    for tenant in tenants {
        sqlx::query("INSERT INTO tenants (id, name) VALUES ($1, $1::text)")
            .bind(tenant.as_uuid())
            .execute(&pool)
            .await
            .unwrap();
    }
    Bed { pool, groups, options, event, tenants, _database: database }
}

impl Bed {
    async fn session(&self, tenant: TenantId) -> SessionId {
        let session = SessionId::new();
        sqlx::query(
            "INSERT INTO sessions (id, tenant_id, model, settings) VALUES ($1, $2, 'm', $3)",
        )
        .bind(session.as_uuid())
        .bind(tenant.as_uuid())
        .bind(sqlx::types::Json(
            serde_json::json!({"model": "m", "max_tokens": 1, "system": "", "tools": []}),
        ))
        .execute(&self.pool)
        .await
        .unwrap();
        session
    }

    async fn sessions(&self, tenant: TenantId, count: usize) -> Vec<SessionId> {
        join_all((0..count).map(|_| self.session(tenant))).await
    }

    fn message<'a>(
        &'a self,
        tenant: TenantId,
        session_id: SessionId,
        key: Option<&'a str>,
    ) -> NewRun<'a> {
        NewRun {
            id: RunId::new(),
            tenant,
            session_id,
            message_id: "msg_1",
            input: r#"[{"type":"text","text":"hi"}]"#,
            options: &self.options,
            idempotency_key: key,
            client_message_id: None,
            fingerprint: b"f",
            event: &self.event,
            request_event: EventId::new(),
            worker: Some(WorkerId::new()),
            may_wait: true,
            versions: None,
        }
    }

    async fn accept(&self, new: NewRun<'_>) -> Outcome {
        self.groups.write(new.tenant, EncodedAccept::of(&new).unwrap()).await
    }

    /// Accepts messages of a tenant while a statement of it is under way.
    async fn accept_together(&self, news: &[NewRun<'_>]) -> Vec<Outcome> {
        let group = self.groups.enter(news[0].tenant);
        let turn = group.group.hold_turn();
        let (outcomes, ()) =
            tokio::join!(join_all(news.iter().map(|new| self.accept(*new))), async {
                until_waiting(&group, news.len()).await;
                turn.write_all().await;
            });
        outcomes
    }

    /// What becomes of a message that is written alone.
    async fn accept_alone(&self, new: &NewRun<'_>) -> Accepted {
        let accept = async |conn: &mut sqlx::PgConnection| accept(conn, new).await;
        self.groups.pool.with(new.tenant, accept).await.unwrap()
    }

    /// The transactions that accepted messages.
    async fn transactions(&self) -> usize {
        let transactions: Vec<String> = sqlx::query_scalar("SELECT DISTINCT xmin::text FROM runs")
            .fetch_all(&self.pool)
            .await
            .unwrap();
        transactions.len()
    }

    /// The statuses of the runs of a session, in the order of their messages.
    async fn statuses(&self, session: SessionId) -> Vec<String> {
        sqlx::query_scalar("SELECT status FROM runs WHERE session_id = $1 ORDER BY accepted_seq")
            .bind(session.as_uuid())
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }
}

async fn until_waiting(group: &Group<'_>, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while group.group.queue.state().waiting.len() < count {
        assert!(Instant::now() < deadline, "the messages do not wait");
        sleep(Duration::from_millis(1)).await;
    }
}

fn names(outcomes: &[Outcome]) -> Vec<&'static str> {
    let name = |outcome: &Outcome| match outcome {
        Ok(Grouped::Done(AcceptStatus::Written(_))) => "accepted",
        Ok(Grouped::Done(AcceptStatus::Refused)) => "refused",
        Ok(Grouped::Done(AcceptStatus::Repeated)) => "repeated",
        Ok(Grouped::Done(AcceptStatus::Skipped)) => "skipped",
        Ok(Grouped::NotWritten) => "not written",
        Ok(Grouped::Unknown) => "unknown",
        Err(_) => "failed",
    };
    outcomes.iter().map(name).collect()
}

#[tokio::test]
async fn messages_that_come_during_another_are_accepted_by_one_statement() {
    let bed = bed().await;
    let tenant = bed.tenants[0];
    let sessions = bed.sessions(tenant, 5).await;
    let news: Vec<_> = sessions.iter().map(|session| bed.message(tenant, *session, None)).collect();
    assert_eq!(names(&bed.accept_together(&news).await), ["accepted"; 5]);
    assert_eq!(bed.transactions().await, 1);
    for session in sessions {
        assert_eq!(bed.statuses(session).await, ["running"]);
    }
    assert!(bed.groups.groups().is_empty(), "a tenant without messages has no group");
}

#[tokio::test]
async fn messages_of_one_session_are_accepted_one_after_the_other() {
    let bed = bed().await;
    let tenant = bed.tenants[0];
    let session = bed.session(tenant).await;
    let news = [bed.message(tenant, session, None), bed.message(tenant, session, None)];
    assert_eq!(names(&bed.accept_together(&news).await), ["accepted"; 2]);
    assert_eq!(bed.statuses(session).await, ["running", "queued"]);
}

#[tokio::test]
async fn a_refused_message_of_a_group_is_refused_alone() {
    let bed = bed().await;
    let tenant = bed.tenants[0];
    let sessions = bed.sessions(tenant, 3).await;
    sqlx::query("UPDATE sessions SET archived_at = now() WHERE id = $1")
        .bind(sessions[1].as_uuid())
        .execute(&bed.pool)
        .await
        .unwrap();
    let news: Vec<_> = sessions.iter().map(|session| bed.message(tenant, *session, None)).collect();
    assert_eq!(names(&bed.accept_together(&news).await), ["accepted", "refused", "accepted"]);
    assert_eq!(bed.transactions().await, 1);
}

#[tokio::test]
async fn a_message_with_a_used_key_is_refused_and_the_others_of_its_group_are_accepted() {
    let bed = bed().await;
    let tenant = bed.tenants[0];
    let sessions = bed.sessions(tenant, 3).await;
    let first = bed.message(tenant, sessions[1], Some("k"));
    assert_eq!(names(&[bed.accept(first).await]), ["accepted"]);
    let news: Vec<_> =
        sessions.iter().map(|session| bed.message(tenant, *session, Some("k"))).collect();
    assert_eq!(names(&bed.accept_together(&news).await), ["accepted", "refused", "accepted"]);
    assert_eq!(bed.statuses(sessions[1]).await, ["running"]);
    assert!(matches!(bed.accept_alone(&news[1]).await, Accepted::Refused));
}

#[tokio::test]
async fn a_locked_session_delays_no_other_message() {
    let bed = bed().await;
    let tenant = bed.tenants[0];
    let sessions = bed.sessions(tenant, 2).await;
    let mut other = bed.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM sessions WHERE id = $1 FOR UPDATE")
        .bind(sessions[0].as_uuid())
        .execute(&mut *other)
        .await
        .unwrap();
    let news: Vec<_> = sessions.iter().map(|session| bed.message(tenant, *session, None)).collect();
    assert_eq!(names(&bed.accept_together(&news).await), ["skipped", "accepted"]);
    // On its own it waits for the other transaction, and the other messages of the tenant do not.
    let (accepted, ()) = tokio::join!(bed.accept(news[0]), async {
        until_a_lock_is_waited_for(&bed.pool).await;
        assert_eq!(
            names(&[bed.accept(bed.message(tenant, sessions[1], None)).await]),
            ["accepted"]
        );
        other.commit().await.unwrap();
    });
    assert_eq!(names(&[accepted]), ["accepted"]);
}

#[tokio::test]
async fn tenants_share_no_statement_and_reach_only_their_own_sessions() {
    let bed = bed().await;
    let [one, other] = bed.tenants;
    let (of_one, of_other) = (bed.session(one).await, bed.session(other).await);
    // Each tenant also names the session of the other.
    let news = [(one, of_one), (other, of_other), (one, of_other), (other, of_one)]
        .map(|(tenant, session)| bed.message(tenant, session, None));
    let groups = [bed.groups.enter(one), bed.groups.enter(other)];
    let turns = groups.each_ref().map(|group| group.group.hold_turn());
    let (outcomes, ()) = tokio::join!(join_all(news.map(|new| bed.accept(new))), async {
        for group in &groups {
            until_waiting(group, 2).await;
        }
        join_all(turns.map(Turn::write_all)).await;
    });
    assert_eq!(names(&outcomes), ["accepted", "accepted", "skipped", "skipped"]);
    assert_eq!(bed.transactions().await, 2);
    for foreign in &news[2..] {
        assert!(matches!(bed.accept_alone(foreign).await, Accepted::Refused));
    }
    for session in [of_one, of_other] {
        assert_eq!(bed.statuses(session).await, ["running"]);
    }
}

#[tokio::test]
async fn the_message_of_a_request_that_was_stopped_is_not_accepted() {
    let bed = bed().await;
    let tenant = bed.tenants[0];
    let sessions = bed.sessions(tenant, 2).await;
    let group = bed.groups.enter(tenant);
    let turn = group.group.hold_turn();
    tokio::select! {
        biased;
        _ = bed.accept(bed.message(tenant, sessions[0], None)) => panic!("it has no turn"),
        () = until_waiting(&group, 1) => {}
    }
    let other = bed.accept(bed.message(tenant, sessions[1], None));
    let (other, ()) = tokio::join!(other, turn.write_all());
    assert_eq!(names(&[other]), ["accepted"]);
    assert!(bed.statuses(sessions[0]).await.is_empty());
}

#[tokio::test]
async fn a_request_that_is_stopped_during_the_statement_stops_no_other() {
    let bed = bed().await;
    let tenant = bed.tenants[0];
    let sessions = bed.sessions(tenant, 3).await;
    // The events cannot be stored yet, so the statement is under way.
    let mut other = bed.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE messages IN SHARE MODE").execute(&mut *other).await.unwrap();
    let group = bed.groups.enter(tenant);
    let turn = group.group.hold_turn();
    let mut stopped = Box::pin(bed.accept(bed.message(tenant, sessions[0], None)));
    let others = join_all(
        sessions[1..].iter().map(|session| bed.accept(bed.message(tenant, *session, None))),
    );
    let (outcomes, ()) = tokio::join!(others, async {
        tokio::select! {
            biased;
            _ = &mut stopped => panic!("the statement is blocked"),
            () = async {
                until_waiting(&group, 3).await;
                tokio_util::task::TaskTracker::new().spawn(turn.write_all());
                until_a_lock_is_waited_for(&bed.pool).await;
            } => {}
        }
        drop(stopped);
        other.commit().await.unwrap();
    });
    assert_eq!(names(&outcomes), ["accepted"; 2]);
    for session in sessions {
        assert_eq!(bed.statuses(session).await, ["running"]);
    }
}
