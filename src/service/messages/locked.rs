//! Messages that need several statements, during which their session is locked.

use sqlx::{Connection as _, PgConnection};

use super::content_check::ContentCheck;
use super::message_post::MessagePost;
use crate::domain::call_end::RunEnd;
use crate::service::cancel::StopRequest;
use crate::service::content::file_uses;
use crate::service::error::Error;
use crate::service::files::attach_files;
use crate::service::versions::check_version;
use crate::store::accept::{Accepted, NewRun, accept};
use crate::store::runs::lock_live;
use crate::store::sessions::last_seq;

/// The number of checks without the lock on a session that changes meanwhile; the next check holds
/// the lock.
const CHECKS_WITHOUT_LOCK: usize = 3;

/// The result of one attempt to accept a message under the lock.
struct LockedAccept {
    accepted: Accepted,
    /// The run that the message interrupts.
    stop: Option<StopRequest>,
}

impl MessagePost<'_> {
    /// Accepts a message that interrupts a run, or that must be checked with its session: no other
    /// message may be accepted in between. A message that is refused, or that was accepted before,
    /// interrupts nothing.
    ///
    /// The check takes long, so it is made before the lock is taken. Under the lock it only has to be
    /// confirmed that the session has not changed since.
    pub(super) async fn accept_locked(
        &self,
        new: &NewRun<'_>,
        interrupts: bool,
    ) -> Result<Accepted, Error> {
        let mut checks = 0;
        loop {
            let check = match checks {
                _ if !self.needs_check => ContentCheck::NotNeeded,
                CHECKS_WITHOUT_LOCK => ContentCheck::Pending,
                _ => self.check_content(new.input).await?,
            };
            checks += 1;
            let result = self.try_accept_locked(new, interrupts, check).await?;
            if let Some(LockedAccept { accepted, stop }) = result {
                if let (Accepted::Run(_), Some(stop)) = (&accepted, stop) {
                    stop.publish(self.service);
                }
                return Ok(accepted);
            }
        }
    }

    /// None if the session has changed since the check.
    async fn try_accept_locked(
        &self,
        new: &NewRun<'_>,
        interrupts: bool,
        check: ContentCheck,
    ) -> Result<Option<LockedAccept>, Error> {
        let work = async |conn: &mut PgConnection| {
            let mut transaction = conn.begin().await?;
            let result = self.accept_in(&mut transaction, new, interrupts, check).await;
            if matches!(result, Ok(Some(LockedAccept { accepted: Accepted::Run(_), .. }))) {
                transaction.commit().await?;
            } else if let Err(error @ Error::Store(_)) = result {
                return Err(error);
            } else {
                transaction.rollback().await?;
            }
            Ok(result)
        };
        self.service.pool.with(self.tenant, work).await?
    }

    async fn accept_in(
        &self,
        conn: &mut PgConnection,
        new: &NewRun<'_>,
        interrupts: bool,
        check: ContentCheck,
    ) -> Result<Option<LockedAccept>, Error> {
        let live = lock_live(conn, self.tenant, self.session_id).await?;
        if let Some(last_seq) = last_seq(conn, self.tenant, self.session_id).await? {
            check_version(new.versions, last_seq)?;
        }
        if !self.is_still_valid(conn, new.input, check).await? {
            return Ok(None);
        }
        let stop = match live.filter(|_| interrupts) {
            Some(run_id) => {
                let (tenant, session_id) = (self.tenant, self.session_id);
                let stop = StopRequest::make(conn, tenant, session_id, run_id, RunEnd::Message);
                Some(stop.await?)
            }
            None => None,
        };
        let uses = file_uses(self.message.content()).map_err(Error::internal)?;
        attach_files(conn, self.tenant, self.session_id, &uses).await?;
        // The stop request has changed the version, which was checked above.
        let accepted = accept(conn, &NewRun { versions: None, ..*new }).await?;
        Ok(Some(LockedAccept { accepted, stop }))
    }
}
