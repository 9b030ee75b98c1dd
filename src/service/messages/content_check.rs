//! Checks a message together with the content that its session already has.

use sqlx::PgConnection;

use super::message_post::MessagePost;
use crate::service::content::ContentTotals;
use crate::service::error::Error;
use crate::store::files::resolve;
use crate::store::media::list_contents;
use crate::store::sessions::{find, last_seq};

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
            Ok::<_, Error>((seq, before, new, self.max_bytes(conn).await?))
        };
        let (seq, before, new, max_bytes) = self.service.pool.with(tenant, read).await?;
        ContentTotals::check(before, new, (max_bytes, "/content")).await?;
        Ok(ContentCheck::DoneUpTo(seq))
    }

    /// The total size of the user messages that the server of the message's model accepts.
    async fn max_bytes(&self, conn: &mut PgConnection) -> Result<usize, Error> {
        let session = find(conn, self.tenant, self.session_id).await?;
        let mut settings =
            session.ok_or_else(|| Error::SessionNotFound(self.session_id.to_string()))?.settings;
        if let Some(changed) = self.message.model_change.apply(self.service, &settings)? {
            settings.set_model(&changed);
        }
        Ok(self.service.defaults.model_rules.models.max_message_bytes(settings.model_ref()))
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
                let max_bytes = self.max_bytes(conn).await?;
                ContentTotals::check(before, new, (max_bytes, "/content")).await?;
                Ok(true)
            }
        }
    }
}
