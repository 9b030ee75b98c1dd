//! The messages of an export, checked one after the other, and all that a session keeps of them.

use std::collections::HashSet;

use super::contents::{Answer, answers, is_message_id, stop_reason, users_content};
use super::events::{call_event, idle_event, reply_events, result_event};
use super::lines::{Item, ItemMessage, wrong};
use super::reply;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::RunId;
use crate::domain::media::told;
use crate::domain::message::{BadContent, Content, Role, View};
use crate::domain::run::{ModelStop, Outcome, RunStatus, StopReason};
use crate::domain::tool::{CallState, ToolCall};
use crate::http::error::{ApiError, FieldError};
use crate::store::session_transfer::{History, ImportedCall, ImportedMessage, ImportedRun};

/// A history as it is to be kept.
#[derive(Debug, Default)]
pub(super) struct Imported {
    pub(super) history: History,
    /// What people and tools said, with pointers to it: for rules that hold for all of it together.
    pub(super) given: Vec<(String, String)>,
    run: Option<Run>,
    /// The runs that have been, by the names that they had.
    seen: HashSet<String>,
    calls: HashSet<String>,
    /// Calls of the message before, which the next one has to answer.
    open: Vec<ToolCall>,
    /// Calls of the model's own tools without a result, of turns that did not go on.
    servers: Vec<String>,
    last: Option<(Role, Option<ModelStop>)>,
}

#[derive(Debug)]
struct Run {
    name: String,
    id: RunId,
    accepted_seq: i64,
    message_id: String,
    input: String,
    /// What the last message says, if it is a reply.
    said: Option<(ModelStop, String)>,
}

type Checked<T> = Result<T, Vec<FieldError>>;

fn refuse<T>(pointer: impl Into<String>, message: impl Into<String>) -> Checked<T> {
    Err(vec![wrong(pointer, message)])
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn unreadable(error: BadContent) -> Vec<FieldError> {
    vec![wrong("", error.to_string())]
}

impl Imported {
    pub(super) fn read(items: Vec<(String, Item)>) -> Result<Self, ApiError> {
        let mut imported = Self::default();
        let last = items.last().map_or_else(String::new, |(at, _)| format!("{at}/message/content"));
        for (seq, (at, item)) in (1..).zip(items) {
            imported.take(seq, &at, item).map_err(ApiError::Validation)?;
        }
        imported.rest(&last).map_err(ApiError::Validation)?;
        imported.settle();
        Ok(imported)
    }

    fn take(&mut self, seq: i32, at: &str, item: Item) -> Checked<()> {
        let Item { r#type, run_id, message, .. } = item;
        if item.seq != seq {
            return refuse(format!("{at}/seq"), format!("is not {seq}"));
        }
        if message.role != r#type {
            return refuse(format!("{at}/message/role"), "is not the type of the line");
        }
        if !is_message_id(&message.id) {
            let problem = "is not 1 to 128 of letters, digits, '_', '.' and '-'";
            return refuse(format!("{at}/message/id"), problem);
        }
        let begins = self.run.as_ref().is_none_or(|run| run.name != run_id);
        let pointer = format!("{at}/message");
        let content = match (message.role, begins) {
            (Role::User, true) => self.begin(at, run_id, &message)?,
            (Role::Assistant, true) => {
                return refuse(
                    format!("{at}/run_id"),
                    "is that of a run that the user did not begin",
                );
            }
            (Role::User, false) => self.answers(seq, &pointer, &message)?,
            (Role::Assistant, false) => self.reply(&pointer, &message)?,
        };
        let ItemMessage { id: message_id, role, model, stop_reason, usage, .. } = message;
        let is_odd = |model: &String| model.len() > 200 || model.chars().any(char::is_control);
        if model.as_ref().is_some_and(is_odd) {
            return refuse(format!("{pointer}/model"), "is no name of a model");
        }
        let Some(run) = &self.run else { return refuse(at, "belongs to no run") };
        let run_id = run.id;
        self.last = Some((role, stop_reason.as_deref().map(ModelStop::from)));
        self.history.messages.push(ImportedMessage {
            run_id,
            role,
            message_id,
            content,
            model: model.filter(|_| role == Role::Assistant),
            stop_reason: stop_reason.filter(|_| role == Role::Assistant),
            usage: usage.filter(|_| role == Role::Assistant),
        });
        Ok(())
    }

    /// A message of the client, which begins a run.
    fn begin(&mut self, at: &str, name: String, message: &ItemMessage) -> Checked<String> {
        if !self.seen.insert(name.clone()) {
            return refuse(format!("{at}/run_id"), "is that of a run that was over");
        }
        let pointer = format!("{at}/message/content");
        self.rest(&pointer)?;
        let content = users_content(&message.content, &pointer)?;
        self.settle();
        let run = Run {
            name,
            id: RunId::new(),
            accepted_seq: i64::try_from(self.history.events.len()).unwrap_or(i64::MAX) + 1,
            message_id: message.id.clone(),
            input: content.as_str().to_owned(),
            said: None,
        };
        let body = EventBody::UserMessage { content: told(&content).map_err(unreadable)? };
        let event = NewEvent::with_id(message.id.clone(), &body);
        self.history.events.push((run.id, event));
        self.run = Some(run);
        self.given.push((pointer, content.as_str().to_owned()));
        Ok(content.as_str().to_owned())
    }

    /// Nothing may be open where a turn of the user begins, or the history ends.
    fn rest(&self, pointer: &str) -> Checked<()> {
        self.answered(pointer)?;
        if let Some(id) = self.servers.first() {
            return refuse(pointer, format!("leaves the call {id} of the model's side unanswered"));
        }
        Ok(())
    }

    /// Whatever comes behind calls answers them.
    fn answered(&self, pointer: &str) -> Checked<()> {
        let Some(call) = self.open.first() else { return Ok(()) };
        refuse(pointer, format!("leaves the call {} unanswered", call.tool_use_id))
    }

    /// What tools answered: all that was asked, in the same order.
    fn answers(&mut self, seq: i32, at: &str, message: &ItemMessage) -> Checked<String> {
        let pointer = format!("{at}/content");
        let open = std::mem::take(&mut self.open);
        if open.is_empty() {
            return refuse(pointer, "answers no call, and does not begin a run");
        }
        let answers = answers(&message.content, &open, &pointer)?;
        let Some(run) = &mut self.run else { return refuse(at, "belongs to no run") };
        run.said = None;
        for (position, (call, answer)) in (1..).zip(open.into_iter().zip(answers)) {
            let Answer { text, content, told, is_error } = answer;
            let event = result_event(&call.tool_use_id, told, is_error);
            self.history.events.push((run.id, event));
            if let Some(content) = &content {
                self.given.push((pointer.clone(), content.clone()));
            }
            self.history.calls.push(ImportedCall {
                run_id: run.id,
                message_seq: seq - 1,
                position,
                tool_use_id: call.tool_use_id,
                name: call.name,
                state: if is_error { CallState::Failed } else { CallState::Done },
                result: text,
                content,
            });
        }
        Ok(message.content.get().to_owned())
    }

    /// What the model said, byte for byte.
    fn reply(&mut self, at: &str, message: &ItemMessage) -> Checked<String> {
        let pointer = format!("{at}/content");
        self.answered(&pointer)?;
        let stop = message.stop_reason.as_deref().filter(|word| !word.is_empty());
        let Some(stop) = stop.filter(|word| word.len() <= 64 && !word.contains('\0')) else {
            return refuse(format!("{at}/stop_reason"), "is none");
        };
        let stop = ModelStop::from(stop);
        let follows_reply = matches!(&self.last, Some((Role::Assistant, stop))
            if !stop.as_ref().is_some_and(ModelStop::wants_to_go_on));
        if follows_reply {
            return refuse(
                format!("{at}/role"),
                "is that of the message before, which was its last",
            );
        }
        let problems = reply::problems(&message.content, &pointer);
        if !problems.is_empty() {
            return Err(problems);
        }
        let content = Content::parse(message.content.get().to_owned()).map_err(unreadable)?;
        self.calls(&content, &stop, &pointer)?;
        let Some(run) = &mut self.run else { return refuse(at, "belongs to no run") };
        run.said = Some((stop, content.joined_text().map_err(unreadable)?));
        let mut events = reply_events(&content).map_err(unreadable)?;
        events.extend(self.open.iter().map(call_event));
        self.history.events.extend(events.into_iter().map(|event| (run.id, event)));
        Ok(content.as_str().to_owned())
    }

    /// Notes what a reply asks for.
    fn calls(&mut self, content: &Content, stop: &ModelStop, at: &str) -> Checked<()> {
        let goes_on = stop.wants_to_go_on() || *stop == ModelStop::ToolUse;
        for (index, block) in content.blocks().map_err(unreadable)?.iter().enumerate() {
            match &block.view {
                View::ToolUse(call) => {
                    let call = ToolCall::from(call);
                    if !self.calls.insert(call.tool_use_id.clone()) {
                        return refuse(format!("{at}/{index}/id"), "is that of another call");
                    }
                    self.open.push(call);
                }
                // What a turn left open that was to go on is left out of what is sent.
                View::ServerToolUse { id } if !goes_on => self.servers.push(id.to_string()),
                View::Other { tool_use_id: Some(id) } => self.servers.retain(|open| open != id),
                View::Text(_)
                | View::Thinking(_)
                | View::RedactedThinking
                | View::ToolResult { .. }
                | View::ServerToolUse { .. }
                | View::Other { tool_use_id: None } => {}
            }
        }
        Ok(())
    }

    /// Ends the run that the messages before belong to.
    fn settle(&mut self) {
        let Some(run) = self.run.take() else { return };
        let (status, stop_reason, output_text) = match run.said {
            Some((stop, text)) => (RunStatus::Completed, stop_reason(&stop), text),
            None => (RunStatus::Cancelled, StopReason::Cancelled, String::new()),
        };
        self.history.events.push((run.id, idle_event(&stop_reason)));
        self.history.runs.push(ImportedRun {
            id: run.id,
            status,
            accepted_seq: run.accepted_seq,
            message_id: run.message_id,
            input: run.input,
            outcome: Outcome { stop_reason, limited: None, output_text, error: None, output: None },
        });
    }
}
