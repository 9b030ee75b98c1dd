//! Transcripts of sessions that ran lately.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Transcript;
use crate::domain::ids::SessionId;

/// Bytes of all kept transcripts together.
const MAX_CACHED: usize = 64 * 1024 * 1024;

/// Transcripts of sessions that ran lately.
#[derive(Debug, Default)]
pub(in crate::worker) struct TranscriptCache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sessions: HashMap<SessionId, (u64, Transcript)>,
    bytes: usize,
    clock: u64,
}

impl TranscriptCache {
    /// Takes out what is known of a session, which may be nothing.
    pub(in crate::worker) fn take(&self, session_id: SessionId) -> Transcript {
        let mut kept = self.kept();
        let Some((_, transcript)) = kept.sessions.remove(&session_id) else {
            return Transcript::default();
        };
        kept.bytes -= transcript.size();
        transcript
    }

    /// Keeps a transcript for the session's next run, if there is room.
    pub(in crate::worker) fn keep(&self, session_id: SessionId, transcript: Transcript) {
        let size = transcript.size();
        if size > MAX_CACHED / 4 {
            return;
        }
        let mut kept = self.kept();
        kept.clock += 1;
        let clock = kept.clock;
        kept.bytes += size;
        if let Some((_, old)) = kept.sessions.insert(session_id, (clock, transcript)) {
            kept.bytes -= old.size();
        }
        kept.evict();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Drops the older half at once, so that a full cache is not searched at every run.
    fn evict(&mut self) {
        if self.bytes <= MAX_CACHED {
            return;
        }
        let mut ages: Vec<u64> = self.sessions.values().map(|(clock, _)| *clock).collect();
        ages.sort_unstable();
        let middle = ages.get(ages.len() / 2).copied().unwrap_or(0);
        self.sessions.retain(|_, (clock, _)| *clock > middle);
        self.bytes = self.sessions.values().map(|(_, kept)| kept.size()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::Role;

    #[test]
    fn the_cache_forgets_the_oldest_when_it_is_full() {
        let cache = TranscriptCache::default();
        let ids: Vec<SessionId> = (0..100).map(|_| SessionId::new()).collect();
        for id in &ids {
            let mut transcript = Transcript::default();
            transcript.push(Role::User, &"x".repeat(1024 * 1024));
            cache.keep(*id, transcript);
            assert!(cache.kept().bytes <= MAX_CACHED);
        }
        assert_eq!(cache.take(ids[0]).seq(), 0);
        assert_eq!(cache.take(ids[99]).seq(), 1);
    }
}
