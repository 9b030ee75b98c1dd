//! A cache of the transcripts of recent sessions.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Transcript;
use crate::domain::ids::SessionId;

/// Maximum size of all cached transcripts together, in bytes.
const MAX_CACHED: usize = 64 * 1024 * 1024;

/// A cache of the transcripts of recent sessions.
#[derive(Debug, Default)]
pub(in crate::worker) struct TranscriptCache(Mutex<Cached>);

#[derive(Debug, Default)]
struct Cached {
    sessions: HashMap<SessionId, (u64, Transcript)>,
    bytes: usize,
    clock: u64,
}

impl TranscriptCache {
    /// Removes and returns the transcript of a session; an empty one if there is none.
    pub(in crate::worker) fn take(&self, session_id: SessionId) -> Transcript {
        let mut cached = self.cached();
        let Some((_, transcript)) = cached.sessions.remove(&session_id) else {
            return Transcript::default();
        };
        cached.bytes -= transcript.size();
        transcript
    }

    /// Stores a transcript for the next run of its session, unless it is too large.
    pub(in crate::worker) fn insert(&self, session_id: SessionId, transcript: Transcript) {
        let size = transcript.size();
        if size > MAX_CACHED / 4 {
            return;
        }
        let mut cached = self.cached();
        cached.clock += 1;
        let clock = cached.clock;
        cached.bytes += size;
        if let Some((_, old)) = cached.sessions.insert(session_id, (clock, transcript)) {
            cached.bytes -= old.size();
        }
        cached.evict();
    }

    fn cached(&self) -> MutexGuard<'_, Cached> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cached {
    /// Drops the older half at once, so that a full cache is not sorted at every run.
    fn evict(&mut self) {
        if self.bytes <= MAX_CACHED {
            return;
        }
        let mut ages: Vec<u64> = self.sessions.values().map(|(clock, _)| *clock).collect();
        ages.sort_unstable();
        let middle = ages.get(ages.len() / 2).copied().unwrap_or(0);
        self.sessions.retain(|_, (clock, _)| *clock > middle);
        self.bytes = self.sessions.values().map(|(_, transcript)| transcript.size()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::Role;

    #[test]
    fn a_full_cache_drops_the_oldest_transcripts() {
        let cache = TranscriptCache::default();
        let ids: Vec<SessionId> = (0..100).map(|_| SessionId::new()).collect();
        for id in &ids {
            let mut transcript = Transcript::default();
            transcript.push(Role::User, &"x".repeat(1024 * 1024));
            cache.insert(*id, transcript);
            assert!(cache.cached().bytes <= MAX_CACHED);
        }
        assert_eq!(cache.take(ids[0]).seq(), 0);
        assert_eq!(cache.take(ids[99]).seq(), 1);
    }
}
