//! Building the stored history of an imported session from the messages of an export.

use std::collections::HashSet;

use super::contents::{
    ImportedResult, is_message_id, stop_reason, tool_results, unreadable, user_content,
};
use super::events::{call_event, idle_event, reply_events, result_event};
use super::lines::{ExportedItem, ExportedMessage, MessageLine};
use super::reply;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::RunId;
use crate::domain::media::with_placeholders;
use crate::domain::message::{Content, Role, View};
use crate::domain::outcome::Outcome;
use crate::domain::run_status::RunStatus;
use crate::domain::stop_reason::{ModelStop, StopReason};
use crate::domain::tool::{CallState, ToolCall};
use crate::service::error::{Error, FieldError};
use crate::store::session_transfer::{History, ImportedCall, ImportedMessage, ImportedRun};

/// A checked history in the form in which it is stored.
#[derive(Debug, Default)]
pub(super) struct ImportedHistory {
    pub(super) history: History,
    /// The contents of user messages and tool results, for the limits on a whole conversation.
    pub(super) contents: Vec<UserContent>,
    /// The deferred tools to which results refer, with the pointers of their messages.
    pub(super) found_tools: Vec<(String, String)>,
}

/// A content that came from a user or a tool.
#[derive(Debug)]
pub(super) struct UserContent {
    /// The JSON pointer to it.
    pub(super) pointer: String,
    /// The content as JSON.
    pub(super) text: String,
}

/// The state of the check after some messages.
#[derive(Debug, Default)]
struct Builder {
    built: ImportedHistory,
    run: Option<OpenRun>,
    /// The names in the export of all runs so far.
    seen: HashSet<String>,
    /// The ids of all calls so far.
    calls: HashSet<String>,
    /// Calls of the preceding message, which the next message has to answer.
    open: Vec<ToolCall>,
    /// Calls of server tools without a result, from turns that did not continue.
    server_calls: Vec<String>,
    last: Option<LastMessage>,
}

/// The run of the current message.
#[derive(Debug)]
struct OpenRun {
    /// The id of the run in the export.
    name: String,
    id: RunId,
    accepted_seq: i64,
    message_id: String,
    input: String,
    /// The last message, if it is a reply.
    reply: Option<LastReply>,
}

#[derive(Debug)]
struct LastReply {
    stop: ModelStop,
    text: String,
}

#[derive(Debug)]
struct LastMessage {
    role: Role,
    stop: Option<ModelStop>,
}

/// Maximum length of a stop sequence in bytes.
const MAX_STOP_SEQUENCE: usize = 4096;

type Checked<T> = Result<T, Vec<FieldError>>;

fn refuse<T>(pointer: impl Into<String>, message: impl Into<String>) -> Checked<T> {
    Err(vec![FieldError::new(pointer, message)])
}

/// Refuses `interrupted` other than an export writes it: true for replies with the stop reason
/// `interrupted`, absent in all other messages.
fn check_interrupted(message: &ExportedMessage, at: &str) -> Checked<()> {
    let stop = message.stop_reason.as_deref().filter(|_| message.role == Role::Assistant);
    let is_interrupted = stop.is_some_and(|stop| ModelStop::from(stop) == ModelStop::Interrupted);
    match message.interrupted {
        Some(true) if !is_interrupted => {
            refuse(format!("{at}/interrupted"), "is true without the stop reason interrupted")
        }
        Some(false) => refuse(format!("{at}/interrupted"), "is false; only true is allowed"),
        None if is_interrupted => {
            refuse(format!("{at}/interrupted"), "is missing for the stop reason interrupted")
        }
        Some(true) | None => Ok(()),
    }
}

impl ImportedHistory {
    /// The bytes of the messages and events.
    pub(super) fn size(&self) -> usize {
        let messages = self.history.messages.iter().map(|message| message.content.len());
        let events = self.history.events.iter().map(|(_, event)| event.body.len());
        messages.chain(events).sum()
    }

    /// Checks the messages in order. The first error ends the check.
    pub(super) fn build(messages: Vec<MessageLine>) -> Result<Self, Error> {
        let last = messages
            .last()
            .map_or_else(String::new, |line| format!("{}/message/content", line.pointer));
        let mut builder = Builder::default();
        for (seq, MessageLine { pointer, item }) in (1..).zip(messages) {
            builder.add(seq, &pointer, item).map_err(Error::Validation)?;
        }
        builder.check_settled(&last).map_err(Error::Validation)?;
        builder.settle();
        Ok(builder.built)
    }
}

impl Builder {
    fn add(&mut self, seq: i32, at: &str, item: ExportedItem) -> Checked<()> {
        let ExportedItem { r#type, run_id, message, .. } = item;
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
        check_interrupted(&message, &pointer)?;
        let content = match (message.role, begins) {
            (Role::User, true) => self.begin_run(at, run_id, &message)?,
            (Role::Assistant, true) => {
                let problem = "is the id of a run that does not begin with a user message";
                return refuse(format!("{at}/run_id"), problem);
            }
            (Role::User, false) => self.add_results(seq, &pointer, &message)?,
            (Role::Assistant, false) => self.add_reply(&pointer, &message)?,
        };
        let ExportedMessage { id: message_id, role, model, stop_reason, usage, .. } = message;
        let stop_sequence = message.stop_sequence;
        let is_invalid = |model: &String| model.len() > 200 || model.chars().any(char::is_control);
        if model.as_ref().is_some_and(is_invalid) {
            return refuse(format!("{pointer}/model"), "is not the name of a model");
        }
        let Some(run) = &self.run else { return refuse(at, "belongs to no run") };
        let run_id = run.id;
        self.last = Some(LastMessage { role, stop: stop_reason.as_deref().map(ModelStop::from) });
        self.built.history.messages.push(ImportedMessage {
            run_id,
            role,
            message_id,
            content,
            model: model.filter(|_| role == Role::Assistant),
            stop_reason: stop_reason.filter(|_| role == Role::Assistant),
            stop_sequence: stop_sequence.filter(|_| role == Role::Assistant),
            last_event: i64::try_from(self.built.history.events.len()).unwrap_or(i64::MAX),
            usage: usage.filter(|_| role == Role::Assistant),
        });
        Ok(())
    }

    /// Adds a message of a user, which begins a run. Returns its content.
    fn begin_run(&mut self, at: &str, name: String, message: &ExportedMessage) -> Checked<String> {
        if !self.seen.insert(name.clone()) {
            return refuse(format!("{at}/run_id"), "is the id of a run that has ended before");
        }
        let pointer = format!("{at}/message/content");
        self.check_settled(&pointer)?;
        let content = user_content(&message.content, &pointer)?;
        self.settle();
        let history = &mut self.built.history;
        let run = OpenRun {
            name,
            id: RunId::new(),
            accepted_seq: i64::try_from(history.events.len()).unwrap_or(i64::MAX) + 1,
            message_id: message.id.clone(),
            input: content.as_str().to_owned(),
            reply: None,
        };
        let body = EventBody::UserMessage {
            content: with_placeholders(&content).map_err(unreadable)?,
            message_id: Some(message.id.clone()),
            retry_of: None,
        };
        history.events.push((run.id, NewEvent::with_id(message.id.clone(), &body)));
        self.run = Some(run);
        let text = content.as_str().to_owned();
        self.built.contents.push(UserContent { pointer, text: text.clone() });
        Ok(text)
    }

    /// Refuses an open call where a user message begins or the history ends.
    fn check_settled(&self, pointer: &str) -> Checked<()> {
        self.check_answered(pointer)?;
        if let Some(id) = self.server_calls.first() {
            return refuse(pointer, format!("leaves the call {id} of a server tool unanswered"));
        }
        Ok(())
    }

    /// Refuses a message other than tool results after calls.
    fn check_answered(&self, pointer: &str) -> Checked<()> {
        let Some(call) = self.open.first() else { return Ok(()) };
        refuse(pointer, format!("leaves the call {} unanswered", call.tool_use_id))
    }

    /// Adds the results of the open calls. Returns the content of the message.
    fn add_results(&mut self, seq: i32, at: &str, message: &ExportedMessage) -> Checked<String> {
        let pointer = format!("{at}/content");
        let open = std::mem::take(&mut self.open);
        if open.is_empty() {
            return refuse(pointer, "answers no call, and does not begin a run");
        }
        let results = tool_results(&message.content, &open, &pointer)?;
        let Some(run) = &mut self.run else { return refuse(at, "belongs to no run") };
        run.reply = None;
        let ImportedHistory { history, contents, found_tools } = &mut self.built;
        for (position, (call, result)) in (1..).zip(open.into_iter().zip(results)) {
            let ImportedResult { text, content, event_content, is_error, references } = result;
            let references = references.into_iter().map(|name| (pointer.clone(), name));
            found_tools.extend(references);
            let event = result_event(&call.tool_use_id, event_content, is_error);
            history.events.push((run.id, event));
            if let Some(content) = &content {
                contents.push(UserContent { pointer: pointer.clone(), text: content.clone() });
            }
            history.calls.push(ImportedCall {
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

    /// Adds a reply of the model. Returns its content, unchanged.
    fn add_reply(&mut self, at: &str, message: &ExportedMessage) -> Checked<String> {
        let pointer = format!("{at}/content");
        self.check_answered(&pointer)?;
        let stop = message.stop_reason.as_deref().filter(|word| !word.is_empty());
        let Some(stop) = stop.filter(|word| word.len() <= 64 && !word.contains('\0')) else {
            return refuse(format!("{at}/stop_reason"), "is missing or not a stop reason");
        };
        let sequence = message.stop_sequence.as_deref();
        if sequence.is_some_and(|text| text.len() > MAX_STOP_SEQUENCE || text.contains('\0')) {
            return refuse(format!("{at}/stop_sequence"), "is not a stop sequence");
        }
        let stop = ModelStop::from(stop).with_sequence(message.stop_sequence.clone());
        let follows_final_reply = self.last.as_ref().is_some_and(|last| {
            last.role == Role::Assistant
                && !last.stop.as_ref().is_some_and(ModelStop::continues_reply)
        });
        if follows_final_reply {
            let problem = "is also the role of the preceding message, which ended its turn";
            return refuse(format!("{at}/role"), problem);
        }
        let problems = reply::problems(&message.content, &pointer);
        if !problems.is_empty() {
            return Err(problems);
        }
        let content = Content::parse(message.content.get().to_owned()).map_err(unreadable)?;
        self.add_calls(&content, &stop, &pointer)?;
        let Some(run) = &mut self.run else { return refuse(at, "belongs to no run") };
        let text = content.joined_text().map_err(unreadable)?;
        let mut events = reply_events(&content, &stop, &message.id).map_err(unreadable)?;
        run.reply = Some(LastReply { stop, text });
        events.extend(self.open.iter().map(|call| call_event(call, &message.id)));
        self.built.history.events.extend(events.into_iter().map(|event| (run.id, event)));
        Ok(content.as_str().to_owned())
    }

    /// Records the calls of a reply.
    fn add_calls(&mut self, content: &Content, stop: &ModelStop, at: &str) -> Checked<()> {
        let continues = stop.continues_reply() || *stop == ModelStop::ToolUse;
        for (index, block) in content.blocks().map_err(unreadable)?.iter().enumerate() {
            match &block.view {
                View::ToolUse(call) => {
                    let call = ToolCall::from(call);
                    if !self.calls.insert(call.tool_use_id.clone()) {
                        return refuse(format!("{at}/{index}/id"), "is the id of another call");
                    }
                    self.open.push(call);
                }
                // A turn that continues may leave such a call open: it is not sent to the model.
                View::ServerToolUse { id } if !continues => self.server_calls.push(id.to_string()),
                View::Other { tool_use_id: Some(id) } => {
                    self.server_calls.retain(|open| open != id);
                }
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

    /// Ends the current run.
    fn settle(&mut self) {
        let Some(run) = self.run.take() else { return };
        let (status, stop_reason, output_text) = match run.reply {
            Some(LastReply { stop, text }) if stop != ModelStop::Interrupted => {
                (RunStatus::Completed, stop_reason(&stop), text)
            }
            Some(_) | None => (RunStatus::Cancelled, StopReason::Cancelled, String::new()),
        };
        let history = &mut self.built.history;
        history.events.push((run.id, idle_event(&stop_reason)));
        history.runs.push(ImportedRun {
            id: run.id,
            status,
            accepted_seq: run.accepted_seq,
            message_id: run.message_id,
            input: run.input,
            outcome: Outcome { stop_reason, limited: None, output_text, error: None, output: None },
        });
    }
}
