//! Checks that the history is in order and valid for the model.

use std::collections::HashSet;

use super::facts::{Facts, MessageFacts, RunFacts};
use super::parts::CallResult;
use super::report::Report;
use crate::domain::ids::RunId;
use crate::domain::message::Role;
use crate::domain::run_status::RunStatus;
use crate::domain::verification::{Invariant, Location};

/// The messages of a session, one after the other.
struct Walk<'a> {
    facts: &'a Facts,
    report: &'a mut Report,
    call_ids: HashSet<&'a str>,
    /// Calls of the provider's server tools that have no result yet.
    open: Vec<&'a str>,
    seen: HashSet<RunId>,
}

pub(super) fn check(facts: &Facts, report: &mut Report) {
    let mut walk =
        Walk { facts, report, call_ids: HashSet::new(), open: Vec::new(), seen: HashSet::new() };
    walk.numbers();
    let mut before = None;
    for message in &facts.messages {
        walk.role(before, message);
        walk.content(message);
        walk.answers(before, message);
        walk.server_calls(message);
        walk.interrupted(before, message);
        walk.run(before, message);
        before = Some(message);
    }
    if let Some(last) = before {
        walk.end(last);
    }
}

impl<'a> Walk<'a> {
    fn at(&self, message: &MessageFacts) -> Location {
        self.report.session().run(message.run_id).message(message.seq)
    }

    fn numbers(&mut self) {
        for (expected, message) in (1..).zip(&self.facts.messages) {
            if message.seq != expected {
                let detail =
                    format!("message {} follows where message {expected} is expected", message.seq);
                let place = self.at(message);
                return self.report.add(Invariant::MessagesNumbered, place, detail);
            }
        }
    }

    fn role(&mut self, before: Option<&MessageFacts>, message: &MessageFacts) {
        let detail = match (before, message.role) {
            (None, Role::Assistant) => "the history begins with an assistant message",
            (Some(before), Role::Assistant)
                if before.role == Role::Assistant
                    && !(before.is_paused() && before.run_id == message.run_id) =>
            {
                "two assistant messages follow each other"
            }
            (Some(before), Role::User)
                if before.role == Role::User && before.run_id == message.run_id =>
            {
                "two user messages of one run follow each other"
            }
            _ => return,
        };
        let place = self.at(message);
        self.report.add(Invariant::RolesAlternate, place, detail);
    }

    fn content(&mut self, message: &'a MessageFacts) {
        let place = self.at(message);
        if message.parts.is_empty {
            self.report.add(Invariant::ContentNotBlank, place.clone(), "the message is empty");
        }
        if message.parts.has_blank_text {
            let detail = "the message has a blank text block";
            self.report.add(Invariant::ContentNotBlank, place.clone(), detail);
        }
        for call in &message.parts.calls {
            if !self.call_ids.insert(&call.id) {
                let detail = format!("the call ID {} was used before", call.id);
                self.report.add(Invariant::CallIdsUnique, place.clone().call(&call.id), detail);
            }
        }
    }

    fn answers(&mut self, before: Option<&MessageFacts>, message: &MessageFacts) {
        let caller = before.filter(|before| before.role == Role::Assistant);
        let expected: Vec<&str> = caller
            .iter()
            .flat_map(|before| before.parts.calls.iter().map(|call| call.id.as_str()))
            .collect();
        let answers = match message.role {
            Role::User => message.parts.results.as_slice(),
            Role::Assistant => &[],
        };
        let answered: Vec<&str> = answers.iter().map(|answer| answer.id.as_str()).collect();
        if expected != answered {
            self.explain_answers(&expected, answers, message);
        } else if message.parts.results_are_late {
            let place = self.at(message);
            let detail = "another block precedes the tool results";
            self.report.add(Invariant::CallsAnswered, place, detail);
        }
    }

    fn explain_answers(
        &mut self,
        expected: &[&str],
        answers: &[CallResult],
        message: &MessageFacts,
    ) {
        let place = self.at(message);
        let times = |id: &str| answers.iter().filter(|answer| answer.id == id).count();
        let mut is_explained = false;
        for id in expected {
            let detail = match times(id) {
                0 => format!("call {id} of the previous message has no result"),
                1 => continue,
                times => format!("call {id} of the previous message has {times} results"),
            };
            is_explained = true;
            self.report.add(Invariant::CallsAnswered, place.clone().call(id), detail);
        }
        for CallResult { id, .. } in answers.iter().filter(|it| !expected.contains(&it.id.as_str()))
        {
            is_explained = true;
            let detail = format!("the previous message has no call {id} for this result");
            self.report.add(Invariant::CallsAnswered, place.clone().call(id), detail);
        }
        if !is_explained {
            let detail = "the results are not in the order of the calls";
            self.report.add(Invariant::CallsAnswered, place, detail);
        }
    }

    fn server_calls(&mut self, message: &'a MessageFacts) {
        match message.role {
            Role::Assistant => {
                let calls = message.parts.server_calls.iter();
                // An unfinished turn that was to continue is omitted from requests.
                self.open.extend(calls.map(String::as_str).filter(|_| !message.continues_turn()));
                self.open.retain(|id| !message.parts.server_results.iter().any(|it| it == id));
            }
            // Results of server tools do not end the assistant's turn.
            Role::User if message.parts.only_results => {}
            Role::User => {
                let place = self.at(message);
                self.open_server_calls(&place);
            }
        }
    }

    /// No worker would answer a call of an interrupted reply, and its run ends with it.
    fn interrupted(&mut self, before: Option<&MessageFacts>, message: &MessageFacts) {
        if let Some(call) = message.parts.calls.first().filter(|_| message.is_interrupted()) {
            let place = self.at(message).call(&call.id);
            let detail = format!("the interrupted reply has the call {}", call.id);
            self.report.add(Invariant::InterruptedReplies, place, detail);
        }
        let interrupted = before.filter(|before| before.is_interrupted());
        if interrupted.is_some_and(|before| before.run_id == message.run_id) {
            let place = self.at(message);
            let detail = "the message follows an interrupted reply of its run";
            self.report.add(Invariant::InterruptedReplies, place, detail);
        }
    }

    fn open_server_calls(&mut self, place: &Location) {
        for id in std::mem::take(&mut self.open) {
            let detail = format!("server tool call {id} has no result");
            self.report.add(Invariant::ServerCallsClosed, place.clone().call(id), detail);
        }
    }

    fn run(&mut self, before: Option<&MessageFacts>, message: &MessageFacts) {
        // Inherited messages are verified with their own sessions.
        if message.is_inherited || message.closes(before) {
            return;
        }
        let facts = self.facts;
        let Some(run) = facts.runs.find(message.run_id) else {
            let detail = "the message belongs to no run of the session";
            let place = self.at(message);
            return self.report.add(Invariant::RunsInOrder, place, detail);
        };
        let same_run = before.filter(|before| before.run_id == message.run_id);
        self.attempt(same_run, message, run);
        if same_run.is_none() {
            let earlier = before.and_then(|before| facts.runs.find(before.run_id));
            self.turn(earlier, message, run);
        }
    }

    fn attempt(&mut self, before: Option<&MessageFacts>, message: &MessageFacts, run: &RunFacts) {
        let detail = match before {
            Some(before) if message.attempt < before.attempt => {
                format!(
                    "attempt {} wrote the message after attempt {}",
                    message.attempt, before.attempt
                )
            }
            _ if message.attempt > run.attempt => {
                format!(
                    "attempt {} wrote the message, but the run is at attempt {}",
                    message.attempt, run.attempt
                )
            }
            _ => return,
        };
        let place = self.at(message);
        self.report.add(Invariant::AttemptsInOrder, place, detail);
    }

    /// The first message of a run's part of the history.
    fn turn(&mut self, earlier: Option<&RunFacts>, message: &MessageFacts, run: &RunFacts) {
        let detail = if !self.seen.insert(run.id) {
            "messages of another run are between the run's messages"
        } else if run.message_id != message.message_id || run.input != message.hash {
            "the run does not begin with its accepted message"
        } else if earlier.is_some_and(|earlier| earlier.accepted_seq > run.accepted_seq) {
            "the run started after a run that was accepted later"
        } else if run.status == Some(RunStatus::Queued) {
            "the run is queued, but has messages"
        } else {
            return;
        };
        let place = self.at(message);
        self.report.add(Invariant::RunsInOrder, place, detail);
    }

    /// Calls may be open while a run is live, and not after it has settled.
    fn end(&mut self, last: &MessageFacts) {
        if self.facts.runs.is_live(last.run_id) {
            return;
        }
        let place = self.at(last);
        for call in &last.parts.calls {
            let detail = format!("call {} has no result, but its run has settled", call.id);
            self.report.add(Invariant::CallsAnswered, place.clone().call(&call.id), detail);
        }
        self.open_server_calls(&place);
    }
}
