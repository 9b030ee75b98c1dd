//! Deleting a session: what runs in it is stopped, and nothing of it stays.

use std::time::Duration;

use axum::extract::State;
use http::{HeaderMap, StatusCode};
use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, timeout, timeout_at};

use super::answering::end;
use super::stop::Stop;
use crate::bus::{Signal, Subscription};
use crate::domain::ids::{SessionId, TenantId};
use crate::http::Api;
use crate::http::auth::Caller;
use crate::http::conditions::{check, expected};
use crate::http::error::{ApiError, Problem};
use crate::http::target::SessionPath;
use crate::store::session_deletion::{Doomed, delete, lock};
use crate::tools::workspace::remove_folder;

/// How long a live run has to settle. Its worker may be dead, and is fenced when the session is
/// gone.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked at when nothing is told of it.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long the answer waits for the files to be gone.
const REMOVES_WITHIN: Duration = Duration::from_secs(2);

/// Deletes a session.
///
/// All that it does and has waiting is cancelled first. Its history, events and files go with it,
/// but for a folder that somebody else has named; what it used stays in the sums of `/usage`. Open
/// streams end with `session.deleted`.
#[utoipa::path(
    delete, path = "/sessions/{session_id}", operation_id = "delete_session", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("If-Match" = Option<String>, Header,
         description = "The session's `ETag`: 412 if anything has happened in it since."),
    ),
    responses(
        (status = 204, description = "It is gone."),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_session(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let SessionPath(session_id) = path;
    let mut deleting = Deleting {
        api: &api,
        tenant: caller.tenant,
        session_id,
        versions: expected(&headers),
        until: Instant::now() + SETTLES_WITHIN,
    };
    // Before its runs are stopped, so that their ends are heard of.
    let mut subscription = api.bus.subscribe(session_id);
    let has_own_folder = loop {
        if let Some(has_own_folder) = deleting.attempt().await? {
            break has_own_folder;
        }
        // What happens from now on is that it is deleted.
        deleting.versions = None;
        deleting.wait(&mut subscription).await;
    };
    api.bus.look_again(session_id);
    if has_own_folder {
        remove_files(&api, session_id).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// A session on its way out.
struct Deleting<'a> {
    api: &'a Api,
    tenant: TenantId,
    session_id: SessionId,
    versions: Option<Vec<i64>>,
    until: Instant,
}

impl Deleting<'_> {
    /// Asks all open runs to stop, and deletes the session if none is left. Whether its folder is
    /// one of its own; none if a run is still live.
    async fn attempt(&self) -> Result<Option<bool>, ApiError> {
        let mut conn = self.api.pool.acquire().await?;
        let mut transaction = conn.begin().await?;
        let met = self.meet(&mut transaction).await;
        let met = end(transaction, met).await?;
        conn.give_back();
        let (stops, deleted) = met?;
        for stop in stops {
            stop.announce(self.api);
        }
        Ok(deleted)
    }

    async fn meet(&self, conn: &mut PgConnection) -> Result<(Vec<Stop>, Option<bool>), ApiError> {
        let missing = || ApiError::SessionNotFound(self.session_id.to_string());
        let Doomed { last_seq, has_own_folder, open } =
            lock(conn, self.tenant, self.session_id).await?.ok_or_else(missing)?;
        check(self.versions.as_deref(), last_seq)?;
        let mut stops = Vec::new();
        for run_id in open {
            stops.push(Stop::request(conn, self.tenant, self.session_id, run_id).await?);
        }
        let is_late = Instant::now() >= self.until;
        if !is_late && stops.iter().any(|stop| !stop.is_settled()) {
            return Ok((stops, None));
        }
        delete(conn, self.tenant, self.session_id).await?;
        Ok((stops, Some(has_own_folder)))
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

/// Removes the files of a session that is gone. It goes on if it takes long.
async fn remove_files(api: &Api, session_id: SessionId) {
    let folder = api.workspaces.join(session_id.to_string());
    let removal = api.posts.spawn_blocking(move || {
        if let Err(error) = remove_folder(&folder) {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "the files of a deleted session cannot be removed");
        }
    });
    // Its own failure it has logged.
    let _ = timeout(REMOVES_WITHIN, removal).await;
}
