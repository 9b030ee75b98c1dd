//! The messages of a session as requests carry them: text to copy. Messages from the database are
//! checked once, and repaired if the model would refuse them. Messages that this process stored are
//! not parsed again.
//!
//! A history only grows, so a transcript stays valid and a new run of the same session reads only the
//! messages that were added since. That keeps the cost of a turn from growing with the history.

mod body_hash;
mod cache;
mod code;
mod far_breakpoint;
mod model;
mod prefix;
mod refused;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use crate::agent::repair::{self, Repair, RepairKind, repair};
use crate::agent::sent_view;
use crate::domain::container::Container;
use crate::domain::ids::SessionId;
use crate::domain::message::Role;
use crate::domain::prefix::ChainPosition;
use crate::domain::sent_history::SentView;
use crate::model::Messages;
use crate::store::StoreError;
use crate::store::messages::{Line, list_lines};
use crate::store::sent_changes::{self, SentState};
use body_hash::{BodyHash, MessageBytes};
use far_breakpoint::{MessageRange, far_breakpoint};
use prefix::Prefix;

pub(super) use cache::TranscriptCache;
pub(super) use prefix::HeadHashes;

/// The markers of blocks that refer to content outside of the request.
const REFERENCES: [&str; 3] =
    [r#""type":"url""#, r#""type":"file""#, r#""type":"container_upload""#];

/// The messages up to one of the history, joined by commas.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    text: String,
    seq: i32,
    /// The role of the last message.
    last: Option<Role>,
    /// The beginning of the last turn of the assistant: a later message may show that the turn needs
    /// a repair.
    turn: TurnStart,
    /// Repairs that are not reported yet.
    repairs: Vec<(RepairKind, i32)>,
    /// The differences between the stored history and the requests.
    view: SentView,
    prefix: Prefix,
    body_hash: BodyHash,
    /// Some blocks refer to content outside of the request.
    refers: bool,
    /// The last message.
    newest: MessageRange,
    /// The last message of the last answered request.
    last_request: Option<MessageRange>,
    /// The last run of the session has settled, and no other one was queued.
    is_settled: bool,
    /// The container in which the model's server runs code.
    container: Option<Container>,
    /// The model that was asked for the newest message of the assistant; none if there is none, or no
    /// request for it is known.
    answered_by: Option<String>,
}

/// A position in a transcript.
#[derive(Debug, Clone, Default)]
struct TurnStart {
    /// Bytes before it.
    offset: usize,
    /// Messages of the history before it.
    seq: i32,
    /// The hashes up to it.
    position: ChainPosition,
    /// The message before it.
    before: MessageRange,
}

/// A message of a transcript.
#[derive(Debug, Deserialize)]
struct Sent<'a> {
    role: Role,
    #[serde(borrow)]
    content: &'a RawValue,
}

impl Transcript {
    fn of(lines: &[Line], view: SentView) -> Self {
        let mut transcript = Self { view, ..Self::default() };
        let summarized = lines.partition_point(|line| line.seq <= transcript.compacted());
        transcript.append_stored(lines.get(summarized..).unwrap_or_default());
        transcript
    }

    /// Appends the next message, which this process has just stored.
    pub(super) fn push(&mut self, role: Role, content: &str) {
        self.append(role, content);
        self.seq += 1;
        // Faults that only the next user message shows: a paused turn that was then stopped, which no
        // write path can prevent, and a call whose run was given up without its result.
        let turn = self.text.get(self.turn.offset..).unwrap_or_default();
        let is_open = turn.contains("server_tool_use")
            || (!content.contains("tool_result") && turn.contains("tool_use"));
        if role == Role::User && is_open {
            self.repair_last_turn();
        }
    }

    /// Appends the messages of the history that this transcript does not have.
    pub(super) async fn catch_up(
        &mut self,
        conn: &mut PgConnection,
        session_id: SessionId,
    ) -> Result<(), StoreError> {
        let SentState { view, container, model } =
            sent_changes::sent_state(&mut *conn, session_id).await?;
        self.container = container;
        self.answered_by = model;
        if view != self.view {
            self.reset();
            self.view = view;
        }
        let lines = list_lines(conn, session_id, self.seq.max(self.compacted())).await?;
        self.append_stored(&lines);
        Ok(())
    }

    /// The text of the messages to send.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The messages to send.
    pub(super) fn messages(&self) -> Messages<'_> {
        let far_breakpoint =
            self.last_request.and_then(|last_request| far_breakpoint(&self.text, last_request));
        let is_compacted = self.view.compaction.is_some();
        Messages {
            text: &self.text,
            far_breakpoint,
            is_compacted,
            container: self.sent_container(),
        }
    }

    /// The differences between the stored history and the requests.
    pub(super) fn view(&self) -> &SentView {
        &self.view
    }

    /// The number of the last summarized message; 0 without a summary.
    pub(super) fn compacted(&self) -> i32 {
        self.view.compaction.as_ref().map_or(0, |compaction| compaction.up_to)
    }

    /// The SHA-256 of the body of a request with all messages, which begin at `start`.
    pub(super) fn hash_body(&mut self, body: &[u8], start: usize) -> [u8; 32] {
        let unchanged = self.messages().far_breakpoint.unwrap_or(self.text.len());
        self.body_hash.of(body, MessageBytes { start, unchanged })
    }

    /// The size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        self.text.capacity() + self.prefix.size()
    }

    /// The size of the last message in bytes.
    pub(super) fn newest_bytes(&self) -> usize {
        self.newest.end - self.newest.start
    }

    /// True if some blocks refer to content outside of the request: the number of bytes is then no
    /// bound of the number of tokens.
    pub(super) fn refers(&self) -> bool {
        self.refers
    }

    /// Removes all messages, so that the history is read again. Keeps the hashes of the last request.
    pub(super) fn reset(&mut self) {
        let mut prefix = std::mem::take(&mut self.prefix);
        prefix.reset();
        let repairs = std::mem::take(&mut self.repairs);
        let answered_by = self.answered_by.take();
        *self = Self { repairs, prefix, answered_by, ..Self::default() };
    }

    /// Notes that the last run of the session has settled, and that no other one was queued.
    pub(super) fn set_settled(&mut self) {
        self.is_settled = true;
    }

    /// True if this process has seen the last run of the session settle. From now on there is another
    /// run.
    pub(super) fn begin_run(&mut self) -> bool {
        std::mem::take(&mut self.is_settled)
    }

    /// The number of the last message.
    pub(super) fn seq(&self) -> i32 {
        self.seq
    }

    /// The repairs since the last call, with the numbers of their messages.
    pub(super) fn take_repairs(&mut self) -> Vec<(RepairKind, i32)> {
        std::mem::take(&mut self.repairs)
    }

    /// Begins with the summary, if there is one. It belongs to no turn.
    fn begin_with_summary(&mut self) {
        let Some(compaction) = self.view.compaction.as_ref().filter(|_| self.text.is_empty())
        else {
            return;
        };
        self.text = message(Role::Assistant, &compaction.content);
        self.seq = compaction.up_to;
        self.newest = MessageRange { start: 0, end: self.text.len() };
        self.prefix.push(&self.text);
        let (offset, seq) = (self.text.len(), self.seq);
        self.turn =
            TurnStart { offset, seq, position: self.prefix.position(), before: self.newest };
    }

    fn append_stored(&mut self, lines: &[Line]) {
        self.begin_with_summary();
        let Some(newest) = lines.last().map(|line| line.seq) else {
            return;
        };
        let known = self.split_last_turn();
        let known = sent(&known);
        let mut all: Vec<repair::Line<'_>> = known.iter().map(Sent::line).collect();
        let mut seqs: Vec<i32> = (self.turn.seq + 1..).take(all.len()).collect();
        all.extend(lines.iter().map(|line| {
            let is_user = line.role == Role::User.as_str();
            let role = if is_user { Role::User } else { Role::Assistant };
            match sent_view::apply_changes(line.seq, &line.content, &self.view.changes) {
                Some(content) => repair::Line { role, content: Cow::Owned(content) },
                None => repair::Line::stored(role, &line.content),
            }
        }));
        seqs.extend(lines.iter().map(|line| line.seq));
        self.append_repaired(&all, &seqs);
        self.seq = newest;
    }

    fn repair_last_turn(&mut self) {
        let seq = self.seq;
        let turn = self.split_last_turn();
        let turn = sent(&turn);
        let lines: Vec<repair::Line<'_>> = turn.iter().map(Sent::line).collect();
        let seqs: Vec<i32> = (self.turn.seq + 1..).take(lines.len()).collect();
        self.append_repaired(&lines, &seqs);
        self.seq = seq;
    }

    /// Removes the last turn and returns it as an array, to append it again with later messages.
    fn split_last_turn(&mut self) -> String {
        let turn = self.text.split_off(self.turn.offset);
        self.body_hash.truncate(self.turn.offset);
        self.seq = self.turn.seq;
        self.last = (!self.text.is_empty()).then_some(Role::User);
        self.prefix.truncate(self.turn.position.clone());
        self.newest = self.turn.before;
        self.last_request = None;
        format!("[{}]", turn.strip_prefix(',').unwrap_or(&turn))
    }

    fn append_repaired(&mut self, lines: &[repair::Line<'_>], seqs: &[i32]) {
        let repaired = repair(lines, self.text.is_empty());
        for Repair { kind, index } in repaired.iter().flat_map(|repaired| &repaired.repairs) {
            self.repairs.push((*kind, seqs.get(*index).copied().unwrap_or_default()));
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
        if role == Role::Assistant {
            // A request does not end with a summary.
            self.last_request = self.last.is_some().then_some(self.newest);
            if self.last != Some(Role::Assistant) {
                let (offset, before) = (self.text.len(), self.newest);
                self.turn =
                    TurnStart { offset, seq: self.seq, position: self.prefix.position(), before };
            }
        }
        self.last = Some(role);
        self.refers |= REFERENCES.iter().any(|source| content.contains(source));
        let from = self.text.len();
        if !self.text.is_empty() {
            self.text.push(',');
        }
        let start = self.text.len();
        for part in [r#"{"role":""#, role.as_str(), r#"","content":"#, content, "}"] {
            self.text.push_str(part);
        }
        self.newest = MessageRange { start, end: self.text.len() };
        self.prefix.push(self.text.get(from..).unwrap_or_default());
    }
}

impl Sent<'_> {
    fn line(&self) -> repair::Line<'_> {
        repair::Line::stored(self.role, self.content.get())
    }
}

/// The messages of a JSON array that a transcript has written.
fn sent(turn: &str) -> Vec<Sent<'_>> {
    serde_json::from_str(turn).unwrap_or_default()
}

fn message(role: Role, content: &str) -> String {
    format!(r#"{{"role":"{}","content":{content}}}"#, role.as_str())
}

/// The messages of these lines as a request carries them in this view.
pub fn sent_messages(lines: &[Line], view: SentView) -> String {
    Transcript::of(lines, view).text
}

/// The messages before the last of these lines, as a request carries them that has the last one too.
pub fn sent_before(lines: &[Line], view: SentView) -> String {
    let mut transcript = Transcript::of(lines, view);
    transcript.text.truncate(transcript.newest.start.saturating_sub(",".len()));
    transcript.text
}

#[cfg(test)]
mod tests;
