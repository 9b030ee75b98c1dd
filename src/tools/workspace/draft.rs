//! Files that are not finished.

use super::hash;
use crate::domain::claim::Fence;

/// The name of a file that is not finished: of one attempt at one call, so that the next attempt
/// knows what to clear away.
#[derive(Debug, Clone)]
pub struct Draft {
    call: u128,
    attempt: i32,
}

impl Draft {
    /// The draft of a call. Ids of calls may repeat in other runs, and are not file names.
    pub fn new(claim: Fence, tool_use_id: &str) -> Self {
        let hash = hash(format!("{} {tool_use_id}", claim.run_id).as_bytes());
        let call = hash.iter().take(16).fold(0, |call, byte| call << 8 | u128::from(*byte));
        Self { call, attempt: claim.attempt }
    }

    /// Of this attempt.
    pub(super) fn name(&self) -> String {
        self.name_of(self.attempt)
    }

    /// Of the attempts before this one.
    pub(super) fn earlier(&self) -> impl Iterator<Item = String> {
        (1..self.attempt).map(|attempt| self.name_of(attempt))
    }

    /// The name of a finished file of the call's own.
    pub(super) fn call_name(&self) -> String {
        format!("{:032x}.txt", self.call)
    }

    fn name_of(&self, attempt: i32) -> String {
        format!(".twostep-{:032x}-{attempt}", self.call)
    }
}
