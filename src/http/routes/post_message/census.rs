//! Whether a message goes together with what its session holds already.

use super::Post;
use crate::domain::media::name;
use crate::domain::message::{BadContent, Content};
use crate::http::blocks::{Census, LARGE};
use crate::http::error::ApiError;
use crate::store::media::list_contents;

impl Post<'_> {
    /// Refuses a message that is right by itself and one too many in its session. Plain messages of
    /// a usual size need no look.
    pub(super) async fn check_conversation(&self, content: &Content) -> Result<(), ApiError> {
        let internal = |error: BadContent| ApiError::Internal(error.to_string());
        if content.as_str().len() < LARGE && !has_media(content).map_err(internal)? {
            return Ok(());
        }
        let mut conn = self.api.pool.acquire().await?;
        let before = list_contents(&mut conn, self.tenant, self.session_id).await?;
        conn.give_back();
        Census::check(before, vec![content.as_str().to_owned()], "/content").await
    }
}

fn has_media(content: &Content) -> Result<bool, BadContent> {
    for block in content.blocks()? {
        if name(block.raw)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
