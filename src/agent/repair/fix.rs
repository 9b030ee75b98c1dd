//! The repair itself. Few histories need it, so the code is written for clarity, not for speed.

use std::borrow::Cow;

use super::entry::{EditedMessage, Part, PartKind};
use super::{Line, Repair, RepairKind, Repaired};
use crate::domain::message::{Content, Role};

/// The text of the message before a history that does not begin with a user message.
const BEGINNING: &str = "(The beginning of this conversation is missing.)";

/// Repairs all faults.
pub(super) fn fix<'a>(lines: &[Line<'a>], is_start: bool) -> Repaired<'a> {
    let entries =
        lines.iter().enumerate().map(|(index, line)| EditedMessage::read(index, line)).collect();
    let mut fixer = Fixer { entries, repairs: Vec::new() };
    fixer.drop_blank_texts();
    fixer.drop_empty_messages();
    fixer.pair();
    fixer.drop_empty_messages();
    while fixer.drop_open_server_calls() {
        fixer.drop_empty_messages();
    }
    if is_start {
        fixer.ensure_first_user_message();
    }
    fixer.repairs.sort_by_key(|repair| repair.index);
    let lines = fixer.entries.into_iter().map(EditedMessage::line).collect();
    Repaired { lines, repairs: fixer.repairs }
}

struct Fixer<'a> {
    entries: Vec<EditedMessage<'a>>,
    repairs: Vec<Repair>,
}

impl Fixer<'_> {
    fn note(&mut self, kind: RepairKind, index: usize, times: usize) {
        self.repairs.extend((0..times).map(|_| Repair { kind, index }));
    }

    fn drop_blank_texts(&mut self) {
        for entry in &mut self.entries {
            let dropped = entry.drop_parts(|kind| *kind == PartKind::BlankText);
            let repair = Repair { kind: RepairKind::BlankText, index: entry.index };
            self.repairs.extend((0..dropped).map(|_| repair));
        }
    }

    fn drop_empty_messages(&mut self) {
        let repairs = &mut self.repairs;
        self.entries.retain(|entry| {
            if entry.is_empty() {
                repairs.push(Repair { kind: RepairKind::EmptyMessage, index: entry.index });
            }
            !entry.is_empty()
        });
    }

    fn ensure_first_user_message(&mut self) {
        if self.entries.first().is_some_and(|first| first.line.role == Role::Assistant)
            && let Ok(text) = Content::text(BEGINNING)
        {
            let line = Line { role: Role::User, content: Cow::Owned(text.as_str().to_owned()) };
            self.entries.insert(0, EditedMessage::read(0, &line));
            self.note(RepairKind::MissingUserMessage, 0, 1);
        }
    }

    /// Moves the result of every call to the beginning of the next message, and leaves out results
    /// without a call in the message before them. Ids are matched between adjacent messages only,
    /// because some servers repeat ids in later rounds.
    fn pair(&mut self) {
        let mut calls: Vec<String> = Vec::new();
        let mut at = 0;
        while let Some(entry) = self.entries.get(at) {
            let can_answer = entry.line.role == Role::User && entry.is_readable;
            if !calls.is_empty() && !can_answer {
                let index = entry.index;
                self.entries.insert(at, EditedMessage::new(Role::User, index));
            }
            self.answer(at, &calls);
            calls = self.entries.get(at).map(EditedMessage::calls).unwrap_or_default();
            at += 1;
        }
    }

    /// Makes the message at this index begin with one result for each of these calls.
    fn answer(&mut self, at: usize, calls: &[String]) {
        let Some(entry) = self.entries.get(at) else { return };
        if entry.answers(calls) && !self.has_late_real_result(entry, at) {
            return;
        }
        let (index, is_leading) = (entry.index, entry.is_leading());
        let noted = self.repairs.len();
        let answers: Vec<Part> = calls.iter().filter_map(|id| self.answer_to(id, at)).collect();
        let Some(entry) = self.entries.get_mut(at) else { return };
        let orphans = entry.drop_parts(PartKind::is_result);
        entry.parts.splice(0..0, answers);
        entry.is_changed = true;
        self.note(RepairKind::OrphanedResult, index, orphans);
        if !is_leading && self.repairs.len() == noted {
            self.note(RepairKind::LateResult, index, 1);
        }
    }

    /// The result of a call. A real result is preferred to one that the service generated, and a
    /// result in its place to a late one.
    fn answer_to(&mut self, id: &str, at: usize) -> Option<Part> {
        let entry = self.entries.get_mut(at)?;
        let index = entry.index;
        let mut found = entry.take_results(id);
        let here = found.len();
        if found.iter().all(Part::is_synthetic) {
            found.extend(self.take_late_result(id, at));
        }
        if found.is_empty() {
            self.note(RepairKind::MissingResult, index, 1);
            return Part::interrupted(id);
        }
        let best = found.iter().position(|part| !part.is_synthetic()).unwrap_or(0);
        self.note(RepairKind::LateResult, index, usize::from(best >= here));
        self.note(RepairKind::DuplicateResult, index, found.len() - 1);
        Some(found.swap_remove(best))
    }

    fn take_late_result(&mut self, id: &str, at: usize) -> Option<Part> {
        let (at, part) = self.find_late_result(id, at)?;
        let entry = self.entries.get_mut(at)?;
        entry.is_changed = true;
        Some(entry.parts.remove(part))
    }

    /// Finds the result of a call in a later message, but not after a call that has the same id.
    fn find_late_result(&self, id: &str, at: usize) -> Option<(usize, usize)> {
        let later = self.entries.iter().enumerate().skip(at + 1);
        let mut until_used_again =
            later.take_while(|(_, entry)| !entry.calls().iter().any(|call| call == id));
        until_used_again.find_map(|(at, entry)| {
            let part = entry.parts.iter().position(|part| part.kind.is_result_of(id))?;
            Some((at, part))
        })
    }

    /// True if a result in this message was generated and a later message has the real one.
    fn has_late_real_result(&self, entry: &EditedMessage<'_>, at: usize) -> bool {
        entry.parts.iter().any(|part| match &part.kind {
            PartKind::Result { id, is_synthetic: true } => {
                let late = self.find_late_result(id, at);
                let late = late.and_then(|(at, part)| self.entries.get(at)?.parts.get(part));
                late.is_some_and(|part| !part.is_synthetic())
            }
            PartKind::Call(_)
            | PartKind::Result { .. }
            | PartKind::ServerCall(_)
            | PartKind::ServerResult(_)
            | PartKind::BlankText
            | PartKind::Thinking
            | PartKind::Other => false,
        })
    }

    /// Leaves out open calls of server tools before a user message with other content than results:
    /// such a turn was never completed.
    fn drop_open_server_calls(&mut self) -> bool {
        let mut is_changed = false;
        let same_role = |a: &EditedMessage<'_>, b: &EditedMessage<'_>| a.line.role == b.line.role;
        let mut turns: Vec<&mut [EditedMessage<'_>]> =
            self.entries.chunk_by_mut(same_role).collect();
        for at in 0..turns.len().saturating_sub(1) {
            let says_more = turns.get(at + 1).is_some_and(|turn| {
                let mut parts = turn.iter().flat_map(|entry| &entry.parts);
                parts.any(|part| !part.kind.is_result())
            });
            let Some(turn) = turns.get_mut(at).filter(|_| says_more) else { continue };
            let open = open_server_calls(turn);
            for entry in turn.iter_mut().filter(|entry| entry.line.role == Role::Assistant) {
                let is_open =
                    |kind: &PartKind| matches!(kind, PartKind::ServerCall(id) if open.contains(id));
                let dropped = entry.drop_parts(is_open);
                let repair = Repair { kind: RepairKind::OpenServerCall, index: entry.index };
                self.repairs.extend((0..dropped).map(|_| repair));
                is_changed |= dropped > 0;
            }
        }
        is_changed
    }
}

fn open_server_calls(turn: &[EditedMessage<'_>]) -> Vec<String> {
    let mut open = Vec::new();
    for part in turn.iter().flat_map(|entry| &entry.parts) {
        match &part.kind {
            PartKind::ServerCall(id) => open.push(id.clone()),
            PartKind::ServerResult(id) => open.retain(|call| call != id),
            PartKind::Call(_)
            | PartKind::Result { .. }
            | PartKind::BlankText
            | PartKind::Thinking
            | PartKind::Other => {}
        }
    }
    open
}
