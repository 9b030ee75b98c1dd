//! Checks a message together with the content that its session already has.

use sqlx::PgConnection;

use super::message_post::MessagePost;
use crate::service::content::ContentTotals;
use crate::service::error::Error;
use crate::store::files::resolve;
use crate::store::media::list_contents;
use crate::store::sessions::last_seq;

/// The state of the check of a message together with its session.
#[derive(Debug, Clone, Copy)]
pub(super) enum ContentCheck {
    /// The message needs no check.
    NotNeeded,
    /// The message was checked with the session up to this event. Content that is added later has a
    /// later event.
    DoneUpTo(Option<i64>),
    /// The message must be checked while the session is locked.
    Pending,
}

impl MessagePost<'_> {
    /// Checks the message with its session, without a lock, and holds no connection during the
    /// computation.
    pub(super) async fn check_content(&self, input: &str) -> Result<ContentCheck, Error> {
        let (tenant, session_id) = (self.tenant, self.session_id);
        let read = async |conn: &mut PgConnection| {
            // Read first: content that is added in between is checked now, and again under the lock.
            let seq = last_seq(conn, tenant, session_id).await?;
            let mut before = list_contents(conn, tenant, session_id).await?;
            let mut new = vec![input.to_owned()];
            resolve(conn, before.iter_mut().chain(&mut new).collect()).await?;
            Ok::<_, Error>((seq, before, new))
        };
        let (seq, before, new) = self.service.pool.with(tenant, read).await?;
        ContentTotals::check(before, new, "/content").await?;
        Ok(ContentCheck::DoneUpTo(seq))
    }

    /// Returns true if the check is valid for the session, which the caller has locked. Without this
    /// condition, two concurrent messages could exceed a limit together.
    pub(super) async fn is_still_valid(
        &self,
        conn: &mut PgConnection,
        input: &str,
        check: ContentCheck,
    ) -> Result<bool, Error> {
        match check {
            ContentCheck::NotNeeded => Ok(true),
            ContentCheck::DoneUpTo(seq) => {
                Ok(last_seq(conn, self.tenant, self.session_id).await? == seq)
            }
            ContentCheck::Pending => {
                let mut before = list_contents(conn, self.tenant, self.session_id).await?;
                let mut new = vec![input.to_owned()];
                resolve(conn, before.iter_mut().chain(&mut new).collect()).await?;
                ContentTotals::check(before, new, "/content").await?;
                Ok(true)
            }
        }
    }
}
