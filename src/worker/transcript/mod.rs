//! The messages of a session as a request carries them: text to be copied. What comes from the
//! database is looked at once, and repaired if the model would refuse it; what this process has
//! stored itself is not parsed again.
//!
//! A history only ever grows, so what was read once stays right, and a new run of the same
//! session reads only what was added since. That keeps the cost of a turn from growing with the
//! history.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use crate::agent::repair::{self, Repair, RepairKind, repair};
use crate::domain::ids::SessionId;
use crate::domain::message::Role;
use crate::store::StoreError;
use crate::store::messages::{Line, list_lines};

/// Bytes of all kept transcripts together.
const MAX_CACHED: usize = 64 * 1024 * 1024;

/// Messages joined by commas, up to a place in the history.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    text: String,
    seq: i32,
    /// Who spoke last.
    last: Option<Role>,
    /// Where the assistant's last turn begins; what comes after may tell that it needs a repair.
    turn: Turn,
    /// Repairs that nobody has been told of.
    repairs: Vec<(RepairKind, i32)>,
}

/// A place in a transcript.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    /// Bytes before it.
    offset: usize,
    /// Messages of the history before it.
    seq: i32,
}

/// A message as it stands in a transcript.
#[derive(Debug, Deserialize)]
struct Sent<'a> {
    role: Role,
    #[serde(borrow)]
    content: &'a RawValue,
}

impl Transcript {
    /// Appends the message at the next place, which this process has just stored.
    pub(super) fn push(&mut self, role: Role, content: &str) {
        self.append(role, content);
        self.seq += 1;
        // A turn that paused and was then stopped is only noticed when the user goes on. It is
        // the one fault that no write path can prevent, and the only one looked for here.
        let turn = self.text.get(self.turn.offset..).unwrap_or_default();
        if role == Role::User && turn.contains("server_tool_use") {
            self.repair_last_turn();
        }
    }

    /// Appends what the history has beyond this transcript.
    pub(super) async fn catch_up(
        &mut self,
        conn: &mut PgConnection,
        session_id: SessionId,
    ) -> Result<(), StoreError> {
        let lines = list_lines(conn, session_id, self.seq).await?;
        self.append_stored(&lines);
        Ok(())
    }

    /// The messages to send.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The place of the last message.
    pub(super) fn seq(&self) -> i32 {
        self.seq
    }

    /// What was repaired since this was last asked, and in which message.
    pub(super) fn take_repairs(&mut self) -> Vec<(RepairKind, i32)> {
        std::mem::take(&mut self.repairs)
    }

    fn append_stored(&mut self, lines: &[Line]) {
        let Some(newest) = lines.last().map(|line| line.seq) else {
            return;
        };
        let known = self.cut_last_turn();
        let known = sent(&known);
        let mut all: Vec<repair::Line<'_>> = known.iter().map(Sent::line).collect();
        let mut seqs: Vec<i32> = (self.turn.seq + 1..).take(all.len()).collect();
        all.extend(lines.iter().map(|line| {
            let is_user = line.role == Role::User.as_str();
            let role = if is_user { Role::User } else { Role::Assistant };
            repair::Line::stored(role, &line.content)
        }));
        seqs.extend(lines.iter().map(|line| line.seq));
        self.append_repaired(&all, &seqs);
        self.seq = newest;
    }

    fn repair_last_turn(&mut self) {
        let seq = self.seq;
        let turn = self.cut_last_turn();
        let turn = sent(&turn);
        let lines: Vec<repair::Line<'_>> = turn.iter().map(Sent::line).collect();
        let seqs: Vec<i32> = (self.turn.seq + 1..).take(lines.len()).collect();
        self.append_repaired(&lines, &seqs);
        self.seq = seq;
    }

    /// Takes the last turn off, as an array, to be appended again with what follows it.
    fn cut_last_turn(&mut self) -> String {
        let turn = self.text.split_off(self.turn.offset);
        self.seq = self.turn.seq;
        self.last = (!self.text.is_empty()).then_some(Role::User);
        format!("[{}]", turn.strip_prefix(',').unwrap_or(&turn))
    }

    fn append_repaired(&mut self, lines: &[repair::Line<'_>], seqs: &[i32]) {
        let repaired = repair(lines, self.text.is_empty());
        for Repair { kind, place } in repaired.iter().flat_map(|repaired| &repaired.repairs) {
            self.repairs.push((*kind, seqs.get(*place).copied().unwrap_or_default()));
        }
        let lines = repaired.as_ref().map_or(lines, |repaired| &repaired.lines);
        let length: usize = lines.iter().map(|line| line.content.len() + 40).sum();
        self.text.reserve(length);
        for (index, line) in lines.iter().enumerate() {
            if let Some(seq) = seqs.get(index) {
                self.seq = seq - 1;
            }
            self.append(line.role, &line.content);
        }
    }

    fn append(&mut self, role: Role, content: &str) {
        if role == Role::Assistant && self.last != Some(Role::Assistant) {
            self.turn = Turn { offset: self.text.len(), seq: self.seq };
        }
        self.last = Some(role);
        if !self.text.is_empty() {
            self.text.push(',');
        }
        for part in [r#"{"role":""#, role.as_str(), r#"","content":"#, content, "}"] {
            self.text.push_str(part);
        }
    }
}

impl Sent<'_> {
    fn line(&self) -> repair::Line<'_> {
        repair::Line::stored(self.role, self.content.get())
    }
}

/// The messages of a JSON array that a transcript wrote itself.
fn sent(turn: &str) -> Vec<Sent<'_>> {
    serde_json::from_str(turn).unwrap_or_default()
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
        kept.bytes -= transcript.text.capacity();
        transcript
    }

    /// Keeps a transcript for the session's next run, if there is room.
    pub(super) fn keep(&self, session_id: SessionId, transcript: Transcript) {
        let size = transcript.text.capacity();
        if size > MAX_CACHED / 4 {
            return;
        }
        let mut kept = self.kept();
        kept.clock += 1;
        let clock = kept.clock;
        kept.bytes += size;
        if let Some((_, old)) = kept.sessions.insert(session_id, (clock, transcript)) {
            kept.bytes -= old.text.capacity();
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
        self.bytes = self.sessions.values().map(|(_, kept)| kept.text.capacity()).sum();
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

    fn line(seq: i32, role: Role, content: &str) -> Line {
        Line { seq, role: role.as_str().to_owned(), content: content.to_owned() }
    }

    #[test]
    fn what_is_stored_is_taken_as_it_is_and_so_is_what_follows_it() {
        let [asked, called, answered] = [
            r#"[{"type":"text","text":"a"}]"#,
            r#"[{"type":"tool_use","id":"1","name":"f","input":{ }}]"#,
            r#"[{"type":"tool_result","tool_use_id":"1"}]"#,
        ];
        let mut pushed = Transcript::default();
        pushed.push(Role::User, asked);
        pushed.push(Role::Assistant, called);
        pushed.push(Role::User, answered);
        let lines = [
            line(1, Role::User, asked),
            line(2, Role::Assistant, called),
            line(3, Role::User, answered),
        ];
        for cut in 0..=3 {
            let mut loaded = Transcript::default();
            loaded.append_stored(&lines[..cut]);
            loaded.append_stored(&lines[cut..]);
            assert_eq!((&loaded.text, loaded.seq()), (&pushed.text, 3));
            assert_eq!(loaded.take_repairs(), []);
        }
    }

    #[test]
    fn a_paused_turn_is_closed_when_the_user_goes_on() {
        let hello = r#"[{"type":"text","text":"Hello"}]"#;
        let call = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#;
        let paused = format!(r#"[{{"type":"text","text":"Let me see."}},{call}]"#);
        let mut transcript = Transcript::default();
        transcript.push(Role::User, hello);
        transcript.push(Role::Assistant, &paused);
        transcript.push(Role::User, hello);
        let mut expected = Transcript::default();
        expected.push(Role::User, hello);
        expected.push(Role::Assistant, r#"[{"type":"text","text":"Let me see."}]"#);
        expected.push(Role::User, hello);
        assert_eq!(transcript.take_repairs(), [(RepairKind::OpenServerCall, 2)]);
        assert_eq!((&transcript.text, transcript.seq()), (&expected.text, 3));
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
