//! The body of a request with several events, parsed completely before any event is applied.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::domain::generation::Generation;
use crate::domain::limits::Limits;
use crate::domain::model::Effort;
use crate::domain::permission::{Decision, PermissionMode};
use crate::domain::run_options::OnBusy;
use crate::domain::string_enum::{nullable_string_enum, optional_string_enum, string_enum};
use crate::domain::tool::ToolChoice;
use crate::http::extract::idempotency::canonical;
use crate::service::Error;
use crate::service::answers::{ApprovalDecision, Remember, ToolResultInput, parse_results};
use crate::service::client_events::EventStep;
use crate::service::client_tool::ClientTool;
use crate::service::content::{ContentInput, InputContent};
use crate::service::json::{not_null, nullable, object, objects, parse, some_object};
use crate::service::messages::{MessageInput, NewMessage};
use crate::service::session_settings::ModelChange;

/// The largest number of events of one request.
const MAX_EVENTS: usize = 128;

/// Events of a client in a session.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateEvents {
    /// The events, 1 to 128, which are applied in order. A message is allowed only as the last event.
    #[schema(value_type = Vec<PostedEvent>, min_items = 1, max_items = 128)]
    events: Vec<Box<RawValue>>,
}

/// An event of a client.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "for the OpenAPI document; each event is parsed by its type")]
enum PostedEvent {
    Message(Box<PostedMessage>),
    Interrupt(PostedInterrupt),
    Confirmation(PostedConfirmation),
    Result(PostedResult),
}

/// A user message. Its members are those of `POST …/messages`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PostedMessage {
    /// `user.message`.
    #[serde(rename = "type")]
    _type: String,
    /// A text, or blocks.
    #[schema(value_type = InputContent)]
    content: ContentInput,
    /// The client's own id of the message.
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    id: Option<String>,
    /// The limits of the run; the session's where absent.
    #[serde(default, deserialize_with = "object")]
    limits: Limits,
    /// The use of tools in the first round; the session's where absent.
    #[serde(default, deserialize_with = "some_object")]
    #[schema(value_type = ToolChoice)]
    tool_choice: Option<ToolChoice>,
    /// The effect on a busy session.
    #[serde(default, deserialize_with = "optional_string_enum")]
    on_busy: Option<OnBusy>,
    /// Tools that the client runs, for this run only.
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 64)]
    tools: Vec<ClientTool>,
    /// The permission mode of the session from this message on.
    #[serde(default, deserialize_with = "optional_string_enum")]
    permission_mode: Option<PermissionMode>,
    /// The model, for this run only; the session's where absent.
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
    /// The effort, for this run only; null for the default of the model.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable_string_enum")]
    #[schema(value_type = Option<Effort>)]
    effort: Option<Option<Effort>>,
    /// The thinking configuration, for this run only; null for the default of the model.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Object>)]
    thinking: Option<Option<Box<RawValue>>>,
    /// The temperature of sampling, for this run only; the session's where absent.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// The probability mass of nucleus sampling, for this run only.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// The number of most likely tokens that are sampled from, for this run only.
    #[schema(minimum = 1)]
    top_k: Option<u32>,
    /// The seed of sampling, for this run only.
    seed: Option<i64>,
    /// Strings that stop the generation of a reply, for this run only.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Vec<String>)]
    stop_sequences: Option<Vec<String>>,
    /// Members that are added to the model requests of this run, in place of the session's.
    #[schema(value_type = Option<Object>)]
    extra_body: Option<Box<RawValue>>,
}

/// Cancels all active and queued runs of the session.
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
    /// `allow`: the call runs. `deny`: it does not.
    #[serde(deserialize_with = "string_enum")]
    result: Decision,
    /// The reason of a denial, which the model sees; at most 2000 characters. Only with `deny`.
    #[schema(max_length = 2000)]
    deny_message: Option<String>,
    /// The input that replaces the model's. Only with `allow`.
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// `session`: a rule of the session allows later calls of this tool, as in `DecideCall`. Only
    /// with `allow`.
    #[serde(default, deserialize_with = "optional_string_enum")]
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
    #[schema(value_type = Option<InputContent>)]
    content: Option<Box<RawValue>>,
    /// True if the call failed.
    #[serde(default)]
    is_error: bool,
}

/// The parsed events of a request.
#[derive(Debug, Default)]
pub(in crate::http) struct ParsedEvents {
    /// The types of the events, in their order.
    pub(in crate::http) kinds: Vec<&'static str>,
    /// The events before the message.
    pub(in crate::http) steps: Vec<EventStep>,
    /// The message.
    pub(in crate::http) message: Option<NewMessage>,
    /// The events before the message in canonical JSON; part of the fingerprint of the request.
    pub(in crate::http) canonical_steps: Vec<u8>,
}

impl CreateEvents {
    /// A request with these events.
    pub(in crate::http) const fn of(events: Vec<Box<RawValue>>) -> Self {
        Self { events }
    }

    pub(in crate::http) fn parse(self) -> Result<ParsedEvents, Error> {
        if !(1..=MAX_EVENTS).contains(&self.events.len()) {
            return Err(Error::field("/events", format!("is not 1 to {MAX_EVENTS} events")));
        }
        let (mut parsed, mut results) = (ParsedEvents::default(), Vec::new());
        let last = self.events.len() - 1;
        for (index, raw) in self.events.iter().enumerate() {
            let pointer = event_pointer(index);
            let event = ParsedEvent::parse(raw, index == last);
            let event = event.map_err(|error| error.under(&pointer))?;
            if !matches!(event, ParsedEvent::Result(_)) {
                parsed.add_results(std::mem::take(&mut results))?;
            }
            parsed.kinds.push(event.kind());
            if !matches!(event, ParsedEvent::Message(_)) {
                parsed.canonical_steps.extend_from_slice(&canonical(raw.get().as_bytes()));
            }
            match event {
                ParsedEvent::Message(message) => parsed.message = Some(*message),
                ParsedEvent::Interrupt => parsed.steps.push(EventStep::Interrupt),
                ParsedEvent::Confirmation(tool_use_id, decision) => {
                    parsed.steps.push(EventStep::Confirm { pointer, tool_use_id, decision });
                }
                ParsedEvent::Result(result) => {
                    let PostedResult { custom_tool_use_id, content, is_error, .. } = result;
                    let tool_use_id = custom_tool_use_id;
                    results.push(ToolResultInput { pointer, tool_use_id, content, is_error });
                }
            }
        }
        parsed.add_results(results)?;
        Ok(parsed)
    }
}

impl ParsedEvents {
    /// Adds consecutive results as one step.
    fn add_results(&mut self, results: Vec<ToolResultInput>) -> Result<(), Error> {
        if !results.is_empty() {
            let results = parse_results(results, "custom_tool_use_id")?;
            self.steps.push(EventStep::Results(results));
        }
        Ok(())
    }
}

/// A JSON pointer to an event.
pub(in crate::http) fn event_pointer(index: usize) -> String {
    format!("/events/{index}")
}

/// One parsed event.
enum ParsedEvent {
    Message(Box<NewMessage>),
    Interrupt,
    Confirmation(String, ApprovalDecision),
    Result(PostedResult),
}

impl ParsedEvent {
    fn parse(raw: &RawValue, is_last: bool) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Kind {
            r#type: String,
        }

        let Kind { r#type } = event(raw)?;
        match &*r#type {
            "user.message" if is_last => {
                let message = MessageInput::from(event::<PostedMessage>(raw)?).validate()?;
                Ok(Self::Message(Box::new(message)))
            }
            "user.message" => {
                Err(Error::field("/type", "is a message, which is allowed only as the last event"))
            }
            "user.interrupt" => event::<PostedInterrupt>(raw).map(|_| Self::Interrupt),
            "user.tool_confirmation" => event::<PostedConfirmation>(raw)?.into_decision(),
            "user.custom_tool_result" => event(raw).map(Self::Result),
            _ => Err(Error::field("/type", "is not a type of event that clients can post")),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Message(_) => "user.message",
            Self::Interrupt => "user.interrupt",
            Self::Confirmation(..) => "user.tool_confirmation",
            Self::Result(_) => "user.custom_tool_result",
        }
    }
}

fn event<T: DeserializeOwned>(raw: &RawValue) -> Result<T, Error> {
    parse(raw.get().as_bytes())
}

impl PostedConfirmation {
    fn into_decision(self) -> Result<ParsedEvent, Error> {
        let Self { tool_use_id, result: decision, deny_message: message, input, remember, .. } =
            self;
        let decision = ApprovalDecision { decision, message, input, remember };
        decision.validate().map_err(|error| error.renamed("/message", "/deny_message"))?;
        Ok(ParsedEvent::Confirmation(tool_use_id, decision))
    }
}

impl From<PostedMessage> for MessageInput {
    fn from(posted: PostedMessage) -> Self {
        let generation = Generation {
            temperature: posted.temperature,
            top_p: posted.top_p,
            top_k: posted.top_k,
            seed: posted.seed,
            extra_body: posted.extra_body,
        };
        Self {
            content: posted.content,
            id: posted.id,
            limits: posted.limits,
            tool_choice: posted.tool_choice,
            on_busy: posted.on_busy,
            tools: posted.tools,
            permission_mode: posted.permission_mode,
            generation,
            stop_sequences: posted.stop_sequences,
            model_change: ModelChange {
                model: posted.model,
                effort: posted.effort,
                thinking: posted.thinking,
            },
        }
    }
}
