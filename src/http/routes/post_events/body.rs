//! What a post of events may hold, read whole before anything of it is done.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::domain::message::Content;
use crate::domain::permission::{Decision, PermissionMode};
use crate::domain::run::{Limits, OnBusy};
use crate::domain::tool::ToolChoice;
use crate::domain::word::{word, words};
use crate::http::error::ApiError;
use crate::http::extract::idempotency::said;
use crate::http::routes::approvals::{DecideCall, Remember};
use crate::http::routes::post_message::body::CreateMessage;
use crate::http::routes::tool_results::{Given, ToolResult, read_results};
use crate::service::client_tool::ClientTool;
use crate::service::content::{ContentInput, GivenContent};
use crate::service::json::{object, objects, parse};

/// Events of one post.
const MAX_EVENTS: usize = 128;

/// What a client does in a session.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateEvents {
    /// One or more, at most 128, which are applied in their order. A message can only be the last.
    #[schema(value_type = Vec<PostedEvent>, min_items = 1, max_items = 128)]
    events: Vec<Box<RawValue>>,
}

/// Something that a client does.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "for the document; each event is read by its type")]
enum PostedEvent {
    Message(PostedMessage),
    Interrupt(PostedInterrupt),
    Confirmation(PostedConfirmation),
    Result(PostedResult),
}

/// A user message. What its members mean, `POST …/messages` says.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PostedMessage {
    /// `user.message`.
    #[serde(rename = "type")]
    _type: String,
    /// A text, or blocks.
    #[schema(value_type = GivenContent)]
    content: ContentInput,
    /// The client's own id of the message.
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    id: Option<String>,
    /// The limits of the run; the session's where absent.
    #[serde(default, deserialize_with = "object")]
    limits: Limits,
    /// How the model may use tools in the first round.
    #[serde(default, deserialize_with = "object")]
    tool_choice: ToolChoice,
    /// What happens if the session is busy.
    #[serde(default, deserialize_with = "words")]
    on_busy: Option<OnBusy>,
    /// Tools that the client runs, for this run only.
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 64)]
    tools: Vec<ClientTool>,
    /// The permission mode of the session from this message on.
    #[serde(default, deserialize_with = "words")]
    permission_mode: Option<PermissionMode>,
}

/// Stops all that the session does and has waiting.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PostedInterrupt {
    /// `user.interrupt`.
    #[serde(rename = "type")]
    _type: String,
}

/// A decision on a call that waits for an approval.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PostedConfirmation {
    /// `user.tool_confirmation`.
    #[serde(rename = "type")]
    _type: String,
    /// The model's own id of the call.
    tool_use_id: String,
    /// Whether the call may run.
    #[serde(deserialize_with = "word")]
    result: Decision,
    /// Why not, for the model; at most 2000 characters. Only with `deny`.
    #[schema(max_length = 2000)]
    deny_message: Option<String>,
    /// What runs in place of the model's input. Only with `allow`.
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// `session`: calls like this one run without asking from now on. Only with `allow`.
    #[serde(default, deserialize_with = "words")]
    remember: Option<Remember>,
}

/// The result of a call that the client ran.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PostedResult {
    /// `user.custom_tool_result`.
    #[serde(rename = "type")]
    _type: String,
    /// The model's own id of the call.
    custom_tool_use_id: String,
    /// A text, or blocks.
    #[schema(value_type = Option<GivenContent>)]
    content: Option<Box<RawValue>>,
    /// Whether the call failed.
    #[serde(default)]
    is_error: bool,
}

/// What is done before the message, all of it or nothing.
#[derive(Debug)]
pub(super) enum Step {
    Interrupt,
    /// The place of the event, the call, and what is decided on it.
    Confirm(String, String, DecideCall),
    /// Results that stand behind each other.
    Results(Vec<Given>),
}

/// A post that has been read.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The types of the events, in their order.
    pub(super) kinds: Vec<&'static str>,
    pub(super) steps: Vec<Step>,
    /// The message and its content.
    pub(super) message: Option<(CreateMessage, Content)>,
    /// What stands before the message, to tell a repeated request from another one.
    pub(super) beside: Vec<u8>,
}

impl CreateEvents {
    pub(super) fn read(self) -> Result<Read, ApiError> {
        if !(1..=MAX_EVENTS).contains(&self.events.len()) {
            return Err(ApiError::field("/events", format!("is not 1 to {MAX_EVENTS} events")));
        }
        let (mut read, mut results) = (Read::default(), Vec::new());
        let last = self.events.len() - 1;
        for (index, raw) in self.events.iter().enumerate() {
            let place = place(index);
            let event = One::of(raw, index == last).map_err(|error| error.beneath(&place))?;
            if !matches!(event, One::Result(_)) {
                read.hand_in(std::mem::take(&mut results))?;
            }
            read.kinds.push(event.kind());
            if !matches!(event, One::Message(..)) {
                read.beside.extend_from_slice(&said(raw.get().as_bytes()));
            }
            match event {
                One::Message(message, content) => read.message = Some((*message, content)),
                One::Interrupt => read.steps.push(Step::Interrupt),
                One::Confirmation(call, decision) => {
                    read.steps.push(Step::Confirm(place, call, decision));
                }
                One::Result(result) => results.push((place, result)),
            }
        }
        read.hand_in(results)?;
        Ok(read)
    }
}

impl Read {
    fn hand_in(&mut self, results: Vec<(String, ToolResult)>) -> Result<(), ApiError> {
        if !results.is_empty() {
            let call = "custom_tool_use_id";
            self.steps.push(Step::Results(read_results(results, call)?));
        }
        Ok(())
    }
}

/// Where an event stands.
pub(super) fn place(index: usize) -> String {
    format!("/events/{index}")
}

/// One event.
enum One {
    Message(Box<CreateMessage>, Content),
    Interrupt,
    Confirmation(String, DecideCall),
    Result(ToolResult),
}

impl One {
    fn of(raw: &RawValue, is_last: bool) -> Result<Self, ApiError> {
        #[derive(Deserialize)]
        struct Kind {
            r#type: String,
        }

        let Kind { r#type } = event(raw)?;
        match &*r#type {
            "user.message" if is_last => {
                let (message, content) =
                    CreateMessage::from(event::<PostedMessage>(raw)?).check()?;
                Ok(Self::Message(Box::new(message), content))
            }
            "user.message" => Err(ApiError::field("/type", "is a message, which can only be last")),
            "user.interrupt" => event::<PostedInterrupt>(raw).map(|_| Self::Interrupt),
            "user.tool_confirmation" => event::<PostedConfirmation>(raw)?.into_decision(),
            "user.custom_tool_result" => {
                let PostedResult { custom_tool_use_id: tool_use_id, content, is_error, .. } =
                    event(raw)?;
                Ok(Self::Result(ToolResult { tool_use_id, content, is_error }))
            }
            _ => Err(ApiError::field("/type", "is no type of event that clients post")),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Message(..) => "user.message",
            Self::Interrupt => "user.interrupt",
            Self::Confirmation(..) => "user.tool_confirmation",
            Self::Result(_) => "user.custom_tool_result",
        }
    }
}

fn event<T: DeserializeOwned>(raw: &RawValue) -> Result<T, ApiError> {
    Ok(parse(raw.get().as_bytes())?)
}

impl PostedConfirmation {
    fn into_decision(self) -> Result<One, ApiError> {
        let Self { tool_use_id, result: decision, deny_message: message, input, remember, .. } =
            self;
        let decision = DecideCall { decision, message, input, remember };
        decision.check().map_err(|error| error.renamed("/message", "/deny_message"))?;
        Ok(One::Confirmation(tool_use_id, decision))
    }
}

impl From<PostedMessage> for CreateMessage {
    fn from(posted: PostedMessage) -> Self {
        let PostedMessage { content, id, limits, tool_choice, on_busy, tools, .. } = posted;
        let (stream, permission_mode) = (false, posted.permission_mode);
        Self { content, id, stream, limits, tool_choice, on_busy, tools, permission_mode }
    }
}
