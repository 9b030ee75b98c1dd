//! Deleting a session: what runs in it is stopped, and nothing of it stays.

use std::time::Duration;

use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use sqlx::{Connection as _, PgConnection, Postgres, Transaction};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::answering::end;
use super::leaving::Leavers;
use super::stop::Stop;
use crate::bus::{Signal, Subscription};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::{check, expected};
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::store::StoreError;
use crate::store::budgets::settle_spent;
use crate::store::folders::{database_id, list_gone};
use crate::store::forks::{list_ids, list_tree};
use crate::store::session_deletion::{
    DELETES_WITHIN, Doomed, be_patient, count_events, delete, lock, take_away,
};
use crate::tools::workspace::Leaving;

/// How long a live run has to settle. Its worker may be dead, and is fenced before the session
/// goes.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked at when nothing is told of it.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long the answer waits for the files to be gone.
const REMOVES_WITHIN: Duration = Duration::from_secs(2);
/// Forks that a refusal names.
const MAX_NAMED: i64 = 100;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct DeleteSession {
    /// `delete`: its forks go with it, and theirs. Else a session that has forks is not deleted,
    /// because they have the beginning of their history from it.
    #[param(inline)]
    forks: Option<Forks>,
}

/// What becomes of the forks of a session that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Forks {
    /// They are deleted, too.
    Delete,
}

/// Deletes a session, with those of its sub-agents, and its forks if they are to go with it.
///
/// All that it does and has waiting is cancelled first. Its history, events and files go with it,
/// but for a folder that somebody else has named; what it used stays in the sums of `/usage`. Open
/// streams end with `session.deleted`.
#[utoipa::path(
    delete, path = "/sessions/{session_id}", operation_id = "delete_session", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The session."),
        DeleteSession,
        ("If-Match" = Option<String>, Header,
         description = "The session's `ETag`: 412 if anything has happened in it since."),
    ),
    responses(
        (status = 204, description = "It is gone."),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`session_has_forks`, with `forks`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`database_unavailable`, `too_many_deletions`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_session(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    query: Params<DeleteSession>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let SessionPath(session_id) = path;
    let Params(DeleteSession { forks }) = query;
    let mut deleting = Deleting {
        api: &api,
        tenant: caller.tenant,
        session_id,
        with_forks: forks == Some(Forks::Delete),
        versions: expected(&headers),
        until: Instant::now() + SETTLES_WITHIN,
        events: 0,
    };
    deleting.events = deleting.count_events().await?;
    // Before its runs are stopped, so that their ends are heard of.
    let mut subscription = api.bus.subscribe(session_id);
    let gone = loop {
        let (has_asked, gone) = deleting.attempt().await?;
        if let Some(gone) = gone {
            break gone;
        }
        if has_asked {
            // What happens from now on is that it is deleted.
            deleting.versions = None;
        }
        deleting.wait(&mut subscription).await;
    };
    let removed = gone.remove_files();
    for id in &gone.ids {
        api.bus.look_again(*id);
    }
    // It goes on if it takes long, and has logged its own failure.
    let _ = timeout(REMOVES_WITHIN, removed).await;
    Ok(StatusCode::NO_CONTENT)
}

/// A session on its way out.
struct Deleting<'a> {
    api: &'a Api,
    tenant: TenantId,
    session_id: SessionId,
    with_forks: bool,
    versions: Option<Vec<i64>>,
    until: Instant,
    /// How many go, about.
    events: i64,
}

/// Sessions that are deleted.
struct Gone {
    ids: Vec<SessionId>,
    /// The folders of their own.
    leavers: Leavers,
    /// Whether a worker may not have noticed yet, and write to them.
    has_stragglers: bool,
}

impl Gone {
    fn remove_files(&self) -> JoinHandle<()> {
        if self.has_stragglers { self.leavers.remove_twice() } else { self.leavers.remove() }
    }
}

/// Who was asked to stop, and what is gone; none if something is in the way still.
type Met = (Vec<Stop>, Option<Gone>);

impl Deleting<'_> {
    /// Asks all open runs to stop, and deletes what is to go if none is left. Whether any was asked,
    /// and what is gone; none if it is to be tried again.
    async fn attempt(&self) -> Result<(bool, Option<Gone>), ApiError> {
        let turn = self.api.deletions.take(self.events).await;
        let _turn = turn.ok_or(ApiError::TooManyDeletions)?;
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let begun = in_time(async {
            let conn: &mut PgConnection = &mut conn;
            settle_spent(conn, self.tenant).await?;
            Ok(conn.begin().await?)
        });
        let mut transaction = begun.await?;
        let (met, is_answered) = match self.meet(&mut transaction).await {
            Ok((stops, Some(gone))) => {
                let is_answered = self.commit(transaction).await?;
                (Ok((stops, Some(gone))), is_answered)
            }
            met => (in_time(end(transaction, met)).await?, true),
        };
        if is_answered {
            conn.give_back();
        }
        let (stops, gone) = met?;
        let has_asked = !stops.is_empty();
        for stop in stops {
            stop.announce(self.api);
        }
        Ok((has_asked, gone))
    }

    async fn meet(&self, conn: &mut PgConnection) -> Result<Met, ApiError> {
        let Some((stops, doomed)) = in_time(self.stop(conn)).await? else {
            return Ok((Vec::new(), None));
        };
        let open: Vec<RunId> =
            stops.iter().filter(|stop| !stop.is_settled()).map(Stop::run_id).collect();
        let is_late = Instant::now() >= self.until;
        if !open.is_empty() && (!is_late || take_away(conn, &open).await? > 0) {
            return Ok((stops, None));
        }
        let leavers = in_time(self.note(conn, &doomed)).await?;
        let ids: Vec<SessionId> = doomed.iter().map(|doomed| doomed.id).collect();
        match timeout(DELETES_WITHIN, delete(conn, self.tenant, &ids)).await {
            Ok(deleted) => deleted?,
            Err(_) => return Err(StoreError::NoAnswer.into()),
        }
        Ok((stops, Some(Gone { ids, leavers, has_stragglers: !open.is_empty() })))
    }

    /// Locks all that is to go, and asks what runs there to stop; none if it is to be tried again.
    async fn stop(
        &self,
        conn: &mut PgConnection,
    ) -> Result<Option<(Vec<Stop>, Vec<Doomed>)>, ApiError> {
        let Some(doomed) = self.lock(conn).await? else { return Ok(None) };
        let mut stops = Vec::new();
        for Doomed { id, open, .. } in &doomed {
            for run_id in open {
                stops.push(Stop::request(conn, self.tenant, *id, *run_id).await?);
            }
        }
        Ok(Some((stops, doomed)))
    }

    /// Locks all that is to go; none if forks or sub-agents have come in between, which are to be
    /// locked as well.
    async fn lock(&self, conn: &mut PgConnection) -> Result<Option<Vec<Doomed>>, ApiError> {
        let ids = self.sessions(conn).await?;
        let doomed = lock(conn, self.tenant, &ids).await?;
        let named = doomed.iter().find(|doomed| doomed.id == self.session_id);
        let missing = || ApiError::SessionNotFound(self.session_id.to_string());
        check(self.versions.as_deref(), named.ok_or_else(missing)?.last_seq)?;
        if self.sessions(conn).await? != ids {
            return Ok(None);
        }
        if self.with_forks {
            return Ok(Some(doomed));
        }
        let forks = list_ids(conn, &ids, MAX_NAMED).await?;
        if forks.is_empty() { Ok(Some(doomed)) } else { Err(ApiError::SessionHasForks(forks)) }
    }

    /// Notes which folders have to go.
    async fn note(&self, conn: &mut PgConnection, doomed: &[Doomed]) -> Result<Leavers, ApiError> {
        be_patient(conn).await?;
        let owners = doomed.iter().filter(|doomed| doomed.has_own_folder);
        let leaving = Leaving {
            root: self.session_id,
            database: database_id(conn).await?,
            sessions: owners.map(|doomed| doomed.id).collect(),
        };
        Ok(Leavers::note(self.api, leaving).await)
    }

    /// Commits a deletion, and says whether that was answered: if not, the database knows what became
    /// of it, and nobody what of the connection.
    async fn commit(&self, transaction: Transaction<'_, Postgres>) -> Result<bool, ApiError> {
        match in_time(async { Ok(transaction.commit().await?) }).await {
            Ok(()) => Ok(true),
            Err(_) if in_time(self.is_gone()).await.unwrap_or(false) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn is_gone(&self) -> Result<bool, ApiError> {
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let gone = list_gone(&mut conn, &[self.session_id]).await?;
        conn.give_back();
        Ok(!gone.is_empty())
    }

    /// What is to go, in the order in which it is locked.
    async fn sessions(&self, conn: &mut PgConnection) -> Result<Vec<SessionId>, ApiError> {
        Ok(list_tree(conn, self.session_id, self.with_forks).await?)
    }

    /// How much there is to delete. Nothing is locked for it: a few more do not matter.
    async fn count_events(&self) -> Result<i64, ApiError> {
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let counted = in_time(async {
            let ids = self.sessions(&mut conn).await?;
            Ok(count_events(&mut conn, self.tenant, &ids).await?)
        });
        let events = counted.await?;
        conn.give_back();
        Ok(events)
    }

    /// Waits until a run may have settled.
    async fn wait(&self, subscription: &mut Subscription) {
        let ended = async {
            loop {
                match subscription.next().await {
                    Some(Signal::Event(frame)) if frame.ends_run() => return true,
                    Some(Signal::Event(_) | Signal::Preview(_)) => {}
                    Some(Signal::Stored(_) | Signal::Look) => return true,
                    None => return false,
                }
            }
        };
        let until = self.until.min(Instant::now() + LOOK_EVERY);
        if let Ok(false) = timeout_at(until, ended).await {
            // Signals were missed; the database knows.
            *subscription = self.api.bus.subscribe(self.session_id);
        }
    }
}
