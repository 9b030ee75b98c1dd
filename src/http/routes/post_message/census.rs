//! Whether a message goes together with what its session holds already.

use sqlx::PgConnection;

use super::Post;
use crate::domain::media::name;
use crate::domain::message::{BadContent, Content};
use crate::http::blocks::{Census, LARGE};
use crate::http::error::ApiError;
use crate::store::media::list_contents;

impl Post<'_> {
    /// Refuses a message that is right by itself and one too many in its session, which the caller
    /// has locked: else two at once could be.
    pub(super) async fn check_conversation(
        &self,
        conn: &mut PgConnection,
        input: &str,
    ) -> Result<(), ApiError> {
        let before = list_contents(conn, self.tenant, self.session_id).await?;
        Census::check(before, vec![input.to_owned()], "/content").await
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
