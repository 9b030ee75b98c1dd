//! Turns at deleting sessions. What is large takes seconds, and has turns of its own: those who
//! delete little do not wait for it.

use super::turns::{Turn, Turns};
use super::{IN_LINE, TURN_WITHIN};

/// Deletions of each kind at a time, each over one of the connections for as long as it takes.
const AT_A_TIME: usize = 2;
/// From so many events on it is large: fewer are gone in a fraction of a second.
const LARGE: i64 = 10_000;

/// Turns at deleting.
#[derive(Debug, Clone)]
pub(super) struct Deletions {
    small: Turns,
    large: Turns,
}

impl Deletions {
    pub(super) fn new() -> Self {
        let turns = || Turns::new(AT_A_TIME, IN_LINE, TURN_WITHIN);
        Self { small: turns(), large: turns() }
    }

    /// A turn at deleting so many events; none if too many wait already, or it takes too long.
    pub(super) async fn take(&self, events: i64) -> Option<Turn> {
        let turns = if events < LARGE { &self.small } else { &self.large };
        turns.take().await
    }
}
