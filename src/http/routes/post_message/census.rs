//! Whether a message goes together with what its session holds already.

use sqlx::PgConnection;

use super::Post;
use crate::domain::media::name;
use crate::domain::message::{BadContent, Content};
use crate::http::error::ApiError;
use crate::service::content::{ContentTotals, LARGE};
use crate::store::media::list_contents;
use crate::store::sessions::last_seq;

/// Whether a message was counted together with what its session holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    /// It need not be.
    Needless,
    /// It was, up to this event of the session: whatever is added to one is told by an event.
    UpTo(Option<i64>),
    /// It is to be, under the lock.
    Missing,
}

impl Post<'_> {
    /// Counts a message in its session, without a lock, and without a connection while what was
    /// read is looked at.
    pub(super) async fn count(&self, input: &str) -> Result<Count, ApiError> {
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        // First: what comes in between is counted too, and counted again.
        let seq = last_seq(&mut conn, self.tenant, self.session_id).await?;
        let before = list_contents(&mut conn, self.tenant, self.session_id).await?;
        conn.give_back();
        ContentTotals::check(before, vec![input.to_owned()], "/content").await?;
        Ok(Count::UpTo(seq))
    }

    /// Whether nothing has come to the session, which the caller has locked, since the message was
    /// counted: else two at once could be one too many.
    pub(super) async fn still_holds(
        &self,
        conn: &mut PgConnection,
        input: &str,
        count: Count,
    ) -> Result<bool, ApiError> {
        match count {
            Count::Needless => Ok(true),
            Count::UpTo(seq) => Ok(last_seq(conn, self.tenant, self.session_id).await? == seq),
            Count::Missing => {
                let before = list_contents(conn, self.tenant, self.session_id).await?;
                ContentTotals::check(before, vec![input.to_owned()], "/content").await?;
                Ok(true)
            }
        }
    }
}

/// Whether a message counts in its session. Plain ones of a usual size need no look.
pub(super) fn is_counted(content: &Content) -> Result<bool, ApiError> {
    let internal = |error: BadContent| ApiError::Internal(error.to_string());
    Ok(content.as_str().len() >= LARGE || has_media(content).map_err(internal)?)
}

fn has_media(content: &Content) -> Result<bool, BadContent> {
    for block in content.blocks()? {
        if name(block.raw)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
