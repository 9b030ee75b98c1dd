//! The messages of a session as a request carries them: bytes to be copied, never parsed again.
//!
//! A history only ever grows, so what was read once stays right, and a new run of the same
//! session reads only what was added since. That keeps the cost of a turn from growing with the
//! history.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sqlx::PgConnection;

use crate::domain::ids::SessionId;
use crate::domain::message::Role;
use crate::store::StoreError;
use crate::store::messages::list_lines;

/// Bytes of all kept transcripts together.
const MAX_CACHED: usize = 64 * 1024 * 1024;

/// Messages joined by commas, up to a place in the history.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    bytes: Vec<u8>,
    seq: i32,
}

impl Transcript {
    /// Appends the message at the next place.
    pub(super) fn push(&mut self, role: Role, content: &str) {
        self.push_raw(role.as_str(), content);
        self.seq += 1;
    }

    /// Appends what the history has beyond this transcript.
    pub(super) async fn catch_up(
        &mut self,
        conn: &mut PgConnection,
        session_id: SessionId,
    ) -> Result<(), StoreError> {
        for line in list_lines(conn, session_id, self.seq).await? {
            self.push_raw(&line.role, &line.content);
            self.seq = line.seq;
        }
        Ok(())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The place of the last message.
    pub(super) fn seq(&self) -> i32 {
        self.seq
    }

    fn push_raw(&mut self, role: &str, content: &str) {
        if !self.bytes.is_empty() {
            self.bytes.push(b',');
        }
        for part in [r#"{"role":""#, role, r#"","content":"#, content, "}"] {
            self.bytes.extend_from_slice(part.as_bytes());
        }
    }
}

/// Transcripts of sessions that ran lately.
#[derive(Debug, Default)]
pub(super) struct TranscriptCache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sessions: HashMap<SessionId, (u64, Transcript)>,
    bytes: usize,
    clock: u64,
}

impl TranscriptCache {
    /// Takes out what is known of a session, which may be nothing.
    pub(super) fn take(&self, session_id: SessionId) -> Transcript {
        let mut kept = self.kept();
        let Some((_, transcript)) = kept.sessions.remove(&session_id) else {
            return Transcript::default();
        };
        kept.bytes -= transcript.bytes.capacity();
        transcript
    }

    /// Keeps a transcript for the session's next run, if there is room.
    pub(super) fn keep(&self, session_id: SessionId, transcript: Transcript) {
        let size = transcript.bytes.capacity();
        if size > MAX_CACHED / 4 {
            return;
        }
        let mut kept = self.kept();
        kept.clock += 1;
        let clock = kept.clock;
        kept.bytes += size;
        if let Some((_, old)) = kept.sessions.insert(session_id, (clock, transcript)) {
            kept.bytes -= old.bytes.capacity();
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
        self.bytes = self.sessions.values().map(|(_, kept)| kept.bytes.capacity()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_joined_as_a_request_carries_them() {
        let mut transcript = Transcript::default();
        transcript.push(Role::User, r#"[{"type": "text"}]"#);
        transcript.push(Role::Assistant, "[1]");
        let expected = concat!(
            r#"{"role":"user","content":[{"type": "text"}]},"#,
            r#"{"role":"assistant","content":[1]}"#
        );
        assert_eq!(transcript.as_bytes(), expected.as_bytes());
        assert_eq!(transcript.seq(), 2);
    }

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
