//! Changed sessions as readers of the feed receive them.

use std::sync::OnceLock;

use crate::domain::ids::SessionId;
use crate::domain::listed_change::ListedChange;
use crate::domain::session::Session;

/// A changed session as readers receive it.
#[derive(Debug)]
pub(crate) struct FeedItem {
    /// The session.
    pub(crate) id: SessionId,
    /// The changes.
    pub(crate) changes: Vec<ListedChange>,
    /// Its present state.
    pub(crate) state: FeedState,
    /// Its encoded form for callers with a key, and the one for browsers: many readers share them.
    pub(crate) encoded: [OnceLock<String>; 2],
}

/// The present state of a changed session.
#[derive(Debug)]
pub(crate) enum FeedState {
    /// The session exists.
    Session(Box<Session>),
    /// The session was deleted.
    Deleted {
        /// Its user.
        user: Option<String>,
        /// Its agent.
        agent: Option<String>,
    },
}

impl FeedItem {
    /// The user of the session.
    pub(crate) fn user(&self) -> Option<&str> {
        match &self.state {
            FeedState::Session(session) => session.settings.user.as_deref(),
            FeedState::Deleted { user, .. } => user.as_deref(),
        }
    }

    /// The name of the agent of the session.
    pub(crate) fn agent(&self) -> Option<&str> {
        match &self.state {
            FeedState::Session(session) => {
                session.settings.agent.as_deref().map(|agent| agent.name.as_str())
            }
            FeedState::Deleted { agent, .. } => agent.as_deref(),
        }
    }
}
