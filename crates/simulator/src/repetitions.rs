//! The number of identical requests, for replies with `fail_first`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Maximum number of requests to remember. At the limit all counts restart at zero.
const MAX_ENTRIES: usize = 10_000;

/// A counter for each distinct request. Apart from the prompt cache it is the only state that
/// replies depend on.
#[derive(Debug, Default)]
pub(crate) struct Repetitions(Mutex<HashMap<String, usize>>);

impl Repetitions {
    /// Counts a request and returns the number of identical requests before it.
    pub(crate) fn count_previous(&self, request: String) -> usize {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_ENTRIES {
            counts.clear();
        }
        let count = counts.entry(request).or_default();
        *count += 1;
        *count - 1
    }
}
