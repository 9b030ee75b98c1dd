//! Messages that take more than one statement: their session is locked from the first to the last.

use sqlx::{Connection as _, PgConnection};

use super::Post;
use crate::http::conditions::check;
use crate::http::error::ApiError;
use crate::http::routes::stop::Stop;
use crate::store::accept::{Accepted, NewRun, accept};
use crate::store::runs::lock_live;
use crate::store::sessions::last_seq;

impl Post<'_> {
    /// Accepts a message that interrupts, or that counts in its session: nobody else may be counted
    /// in between. One that turns out to be repeated, or to be one too many, has interrupted
    /// nothing.
    pub(super) async fn accept_locked(
        &self,
        new: &NewRun<'_>,
        interrupts: bool,
    ) -> Result<Accepted, ApiError> {
        let mut conn = self.api.pool.acquire().await?;
        let mut transaction = conn.begin().await?;
        let met = self.meet(&mut transaction, new, interrupts).await;
        if matches!(met, Ok((Accepted::Run(_), _))) {
            transaction.commit().await?;
        } else if let Err(error @ ApiError::Store(_)) = met {
            return Err(error);
        } else {
            transaction.rollback().await?;
        }
        conn.give_back();
        let (accepted, stop) = met?;
        if let (Accepted::Run(_), Some(stop)) = (&accepted, stop) {
            stop.announce(self.api);
        }
        Ok(accepted)
    }

    async fn meet(
        &self,
        conn: &mut PgConnection,
        new: &NewRun<'_>,
        interrupts: bool,
    ) -> Result<(Accepted, Option<Stop>), ApiError> {
        let live = lock_live(conn, self.tenant, self.session_id).await?;
        if let Some(last_seq) = last_seq(conn, self.tenant, self.session_id).await? {
            check(new.versions, last_seq)?;
        }
        if self.is_counted {
            self.check_conversation(conn, new.input).await?;
        }
        let stop = match live.filter(|_| interrupts) {
            Some(live) => Some(Stop::request(conn, self.tenant, self.session_id, live).await?),
            None => None,
        };
        // To ask a run to stop has changed the version that was looked at.
        Ok((accept(conn, &NewRun { versions: None, ..*new }).await?, stop))
    }
}
