//! Messages that take more than one statement: their session is locked from the first to the last.

use sqlx::{Connection as _, PgConnection};

use super::Post;
use super::census::Count;
use crate::http::error::ApiError;
use crate::service::cancel::StopRequest;
use crate::service::versions::check_version;
use crate::store::accept::{Accepted, NewRun, accept};
use crate::store::runs::lock_live;
use crate::store::sessions::last_seq;

/// How often a busy session is counted beside its lock, before it is counted under it.
const COUNTS_BESIDE: usize = 3;

/// What became of a message under the lock; none if its session has changed since it was counted.
type Met = Option<(Accepted, Option<StopRequest>)>;

impl Post<'_> {
    /// Accepts a message that interrupts, or that counts in its session: nobody else may be counted
    /// in between. One that turns out to be repeated, or to be one too many, has interrupted
    /// nothing.
    ///
    /// Counting takes long, so it is done before the lock, which then only has to find that nothing
    /// has come since.
    pub(super) async fn accept_locked(
        &self,
        new: &NewRun<'_>,
        interrupts: bool,
    ) -> Result<Accepted, ApiError> {
        let mut counted = 0;
        loop {
            let count = match counted {
                _ if !self.is_counted => Count::Needless,
                COUNTS_BESIDE => Count::Missing,
                _ => self.count(new.input).await?,
            };
            counted += 1;
            if let Some((accepted, stop)) = self.try_locked(new, interrupts, count).await? {
                if let (Accepted::Run(_), Some(stop)) = (&accepted, stop) {
                    stop.publish(&self.api.service);
                }
                return Ok(accepted);
            }
        }
    }

    async fn try_locked(
        &self,
        new: &NewRun<'_>,
        interrupts: bool,
        count: Count,
    ) -> Result<Met, ApiError> {
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let mut transaction = conn.begin().await?;
        let met = self.meet(&mut transaction, new, interrupts, count).await;
        if matches!(met, Ok(Some((Accepted::Run(_), _)))) {
            transaction.commit().await?;
        } else if let Err(error @ ApiError::Store(_)) = met {
            return Err(error);
        } else {
            transaction.rollback().await?;
        }
        conn.give_back();
        met
    }

    async fn meet(
        &self,
        conn: &mut PgConnection,
        new: &NewRun<'_>,
        interrupts: bool,
        count: Count,
    ) -> Result<Met, ApiError> {
        let live = lock_live(conn, self.tenant, self.session_id).await?;
        if let Some(last_seq) = last_seq(conn, self.tenant, self.session_id).await? {
            check_version(new.versions, last_seq)?;
        }
        if !self.still_holds(conn, new.input, count).await? {
            return Ok(None);
        }
        let stop = match live.filter(|_| interrupts) {
            Some(live) => Some(StopRequest::make(conn, self.tenant, self.session_id, live).await?),
            None => None,
        };
        // To ask a run to stop has changed the version that was looked at.
        Ok(Some((accept(conn, &NewRun { versions: None, ..*new }).await?, stop)))
    }
}
