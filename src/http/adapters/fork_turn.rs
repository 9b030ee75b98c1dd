//! A message that continues a conversation from an earlier point, in a fork.

use super::turn::{AppliedTurn, Turn};
use crate::domain::ids::SessionId;
use crate::http::error::ApiError;
use crate::service::cancel::cancel_session;
use crate::service::messages::PostMessage;
use crate::service::sessions::fork::{CreateFork, ForkSource};
use crate::service::sessions::replace_by_fork;

/// The session to continue, and the point.
#[derive(Debug)]
pub(in crate::http) struct ForkPoint<'a> {
    pub(in crate::http) session_id: SessionId,
    /// The external id of the session, which the fork takes over. Without one, the session goes on.
    pub(in crate::http) external_id: Option<&'a str>,
    /// The first message that the fork leaves out; none for a fork with all messages.
    pub(in crate::http) before: Option<String>,
    /// By this key a repeated request finds its fork; none for a new fork every time.
    pub(in crate::http) key: Option<&'a str>,
}

impl Turn<'_> {
    /// Forks a session and posts a message into the fork. A fork has the budget of a new session, so
    /// browsers cannot do this.
    pub(in crate::http) async fn post_into_fork(
        &self,
        point: ForkPoint<'_>,
        mut post: PostMessage,
    ) -> Result<AppliedTurn, ApiError> {
        self.check_fork()?;
        let ForkPoint { session_id, external_id: passed_on, before, key } = point;
        let (service, tenant) = (self.service, self.tenant());
        let source = ForkSource { tenant, session_id, key, passed_on };
        post.session_id = replace_by_fork(service, source, CreateFork::before(before)).await?;
        if passed_on.is_some() {
            // No client follows the runs of the source any more.
            cancel_session(service, tenant, session_id).await?;
        }
        self.post(&post).await
    }

    /// Refuses forks for browsers.
    pub(in crate::http) fn check_fork(&self) -> Result<(), ApiError> {
        if self.caller.is_browser() {
            let reason = "edited messages and regenerated answers need an API key";
            return Err(ApiError::NoBrowserTokens(reason));
        }
        Ok(())
    }
}
