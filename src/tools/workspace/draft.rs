//! Names of the temporary files of writes.

use super::hash;
use crate::domain::claim::Fence;

/// The name of a temporary file. It identifies the call and the attempt, so that the next attempt
/// can remove the files of earlier attempts.
#[derive(Debug, Clone)]
pub struct Draft {
    call: u128,
    attempt: i32,
}

impl Draft {
    /// Returns the draft of a call. The name contains a hash, because call IDs repeat in other runs
    /// and are not valid file names.
    pub fn new(claim: Fence, tool_use_id: &str) -> Self {
        let hash = hash(format!("{} {tool_use_id}", claim.run_id).as_bytes());
        let call = hash.iter().take(16).fold(0, |call, byte| call << 8 | u128::from(*byte));
        Self { call, attempt: claim.attempt }
    }

    /// Returns the file name of this attempt.
    pub(super) fn name(&self) -> String {
        self.name_of(self.attempt)
    }

    /// Returns the file names of all earlier attempts.
    pub(super) fn earlier(&self) -> impl Iterator<Item = String> {
        (1..self.attempt).map(|attempt| self.name_of(attempt))
    }

    /// Returns the name of the file that stores the call's complete result.
    pub(super) fn call_name(&self) -> String {
        format!("{:032x}.txt", self.call)
    }

    fn name_of(&self, attempt: i32) -> String {
        format!(".twostep-{:032x}-{attempt}", self.call)
    }
}
