//! How often the very same request has come, for replies that fail at first.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Requests remembered at most; beyond that the counting starts anew.
const MOST: usize = 10_000;

/// Counts by request; the only memory that a simulator's answers depend on.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<String, usize>>);

impl Attempts {
    /// How often this was asked before.
    pub(crate) fn before(&self, request: String) -> usize {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST {
            counts.clear();
        }
        let count = counts.entry(request).or_default();
        *count += 1;
        *count - 1
    }
}
