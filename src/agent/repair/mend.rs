//! The repair itself. Few histories ever come here, so it is written for the reader.

use std::borrow::Cow;

use super::entry::{Entry, Part, What};
use super::{Line, Repair, RepairKind, Repaired};
use crate::domain::message::{Content, Role};

/// Put before a history that does not begin with the user.
const BEGINNING: &str = "(The beginning of this conversation is missing.)";

/// Repairs what is wrong.
pub(super) fn mend<'a>(lines: &[Line<'a>], is_start: bool) -> Repaired<'a> {
    let entries = lines.iter().enumerate().map(Entry::read).collect();
    let mut mending = Mending { entries, repairs: Vec::new() };
    mending.drop_blank_texts();
    mending.drop_empty_messages();
    mending.pair();
    mending.drop_empty_messages();
    while mending.drop_open_server_calls() {
        mending.drop_empty_messages();
    }
    if is_start {
        mending.begin_with_the_user();
    }
    mending.repairs.sort_by_key(|repair| repair.place);
    let lines = mending.entries.into_iter().map(Entry::line).collect();
    Repaired { lines, repairs: mending.repairs }
}

struct Mending<'a> {
    entries: Vec<Entry<'a>>,
    repairs: Vec<Repair>,
}

impl Mending<'_> {
    fn note(&mut self, kind: RepairKind, place: usize, times: usize) {
        self.repairs.extend((0..times).map(|_| Repair { kind, place }));
    }

    fn drop_blank_texts(&mut self) {
        for entry in &mut self.entries {
            let dropped = entry.drop_parts(|what| *what == What::BlankText);
            let repair = Repair { kind: RepairKind::BlankText, place: entry.place };
            self.repairs.extend((0..dropped).map(|_| repair));
        }
    }

    fn drop_empty_messages(&mut self) {
        let repairs = &mut self.repairs;
        self.entries.retain(|entry| {
            if entry.is_empty() {
                repairs.push(Repair { kind: RepairKind::EmptyMessage, place: entry.place });
            }
            !entry.is_empty()
        });
    }

    fn begin_with_the_user(&mut self) {
        if self.entries.first().is_some_and(|first| first.line.role == Role::Assistant)
            && let Ok(text) = Content::text(BEGINNING)
        {
            let line = Line { role: Role::User, content: Cow::Owned(text.as_str().to_owned()) };
            self.entries.insert(0, Entry::read((0, &line)));
            self.note(RepairKind::MissingUserMessage, 0, 1);
        }
    }

    /// Gives every call its result at the beginning of the next message, and leaves out the
    /// results that have no call right before them. Ids are matched between neighbours only:
    /// some servers use them again from round to round.
    fn pair(&mut self) {
        let mut calls: Vec<String> = Vec::new();
        let mut at = 0;
        while let Some(entry) = self.entries.get(at) {
            let can_answer = entry.line.role == Role::User && entry.is_readable;
            if !calls.is_empty() && !can_answer {
                let place = entry.place;
                self.entries.insert(at, Entry::new(Role::User, place));
            }
            self.answer(at, &calls);
            calls = self.entries.get(at).map(Entry::calls).unwrap_or_default();
            at += 1;
        }
    }

    /// Makes the message at this place begin with one result for each of these calls.
    fn answer(&mut self, at: usize, calls: &[String]) {
        let Some(entry) = self.entries.get(at) else { return };
        if entry.answers(calls) && !self.is_real_one_late(entry, at) {
            return;
        }
        let (place, is_leading) = (entry.place, entry.is_leading());
        let noted = self.repairs.len();
        let answers: Vec<Part> = calls.iter().filter_map(|id| self.answer_to(id, at)).collect();
        let Some(entry) = self.entries.get_mut(at) else { return };
        let orphans = entry.drop_parts(What::is_result);
        entry.parts.splice(0..0, answers);
        entry.is_changed = true;
        self.note(RepairKind::OrphanedResult, place, orphans);
        if !is_leading && self.repairs.len() == noted {
            self.note(RepairKind::LateResult, place, 1);
        }
    }

    /// The result of a call: a real one rather than one that the service made up, one that is in
    /// its place rather than a late one.
    fn answer_to(&mut self, id: &str, at: usize) -> Option<Part> {
        let entry = self.entries.get_mut(at)?;
        let place = entry.place;
        let mut found = entry.take_results(id);
        let here = found.len();
        if found.iter().all(Part::is_synthetic) {
            found.extend(self.take_late(id, at));
        }
        if found.is_empty() {
            self.note(RepairKind::MissingResult, place, 1);
            return Part::interrupted(id);
        }
        let best = found.iter().position(|part| !part.is_synthetic()).unwrap_or(0);
        self.note(RepairKind::LateResult, place, usize::from(best >= here));
        self.note(RepairKind::DuplicateResult, place, found.len() - 1);
        Some(found.swap_remove(best))
    }

    fn take_late(&mut self, id: &str, at: usize) -> Option<Part> {
        let (at, part) = self.find_late(id, at)?;
        let entry = self.entries.get_mut(at)?;
        entry.is_changed = true;
        Some(entry.parts.remove(part))
    }

    /// Finds the result of a call in a message further on, but not beyond a call that uses the id
    /// again.
    fn find_late(&self, id: &str, at: usize) -> Option<(usize, usize)> {
        let behind = self.entries.iter().enumerate().skip(at + 1);
        let mut until_used_again =
            behind.take_while(|(_, entry)| !entry.calls().iter().any(|call| call == id));
        until_used_again.find_map(|(at, entry)| {
            let part = entry.parts.iter().position(|part| part.what.is_result_of(id))?;
            Some((at, part))
        })
    }

    /// Whether a result in this message is made up, and the real one stands further on.
    fn is_real_one_late(&self, entry: &Entry<'_>, at: usize) -> bool {
        entry.parts.iter().any(|part| match &part.what {
            What::Result { id, is_synthetic: true } => {
                let late = self.find_late(id, at);
                let late = late.and_then(|(at, part)| self.entries.get(at)?.parts.get(part));
                late.is_some_and(|part| !part.is_synthetic())
            }
            What::Call(_)
            | What::Result { .. }
            | What::ServerCall(_)
            | What::ServerResult(_)
            | What::BlankText
            | What::Thinking
            | What::Other => false,
        })
    }

    /// Leaves out the calls of servers' tools that are open where the user says something else
    /// than results: such a turn was never taken to its end.
    fn drop_open_server_calls(&mut self) -> bool {
        let mut is_changed = false;
        let same_role = |a: &Entry<'_>, b: &Entry<'_>| a.line.role == b.line.role;
        let mut turns: Vec<&mut [Entry<'_>]> = self.entries.chunk_by_mut(same_role).collect();
        for at in 0..turns.len().saturating_sub(1) {
            let says_more = turns.get(at + 1).is_some_and(|turn| {
                let mut parts = turn.iter().flat_map(|entry| &entry.parts);
                parts.any(|part| !part.what.is_result())
            });
            let Some(turn) = turns.get_mut(at).filter(|_| says_more) else { continue };
            let open = open_server_calls(turn);
            for entry in turn.iter_mut().filter(|entry| entry.line.role == Role::Assistant) {
                let is_open =
                    |what: &What| matches!(what, What::ServerCall(id) if open.contains(id));
                let dropped = entry.drop_parts(is_open);
                let repair = Repair { kind: RepairKind::OpenServerCall, place: entry.place };
                self.repairs.extend((0..dropped).map(|_| repair));
                is_changed |= dropped > 0;
            }
        }
        is_changed
    }
}

fn open_server_calls(turn: &[Entry<'_>]) -> Vec<String> {
    let mut open = Vec::new();
    for part in turn.iter().flat_map(|entry| &entry.parts) {
        match &part.what {
            What::ServerCall(id) => open.push(id.clone()),
            What::ServerResult(id) => open.retain(|call| call != id),
            What::Call(_)
            | What::Result { .. }
            | What::BlankText
            | What::Thinking
            | What::Other => {}
        }
    }
    open
}
