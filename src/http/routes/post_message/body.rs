//! The body of a posted message.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::browser_token::BrowserScope;
use crate::domain::generation::Generation;
use crate::domain::limits::Limits;
use crate::domain::model::Effort;
use crate::domain::permission::PermissionMode;
use crate::domain::run_options::OnBusy;
use crate::domain::string_enum::{nullable_string_enum, optional_string_enum};
use crate::domain::tool::ToolChoice;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::service::client_tool::ClientTool;
use crate::service::content::{ContentInput, InputContent};
use crate::service::json::{not_null, nullable, object, objects, some_object};
use crate::service::messages::MessageInput;
use crate::service::session_settings::ModelChange;

/// A user message.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateMessage {
    /// A text, or blocks: at least one, with at most 100 images and 4 MiB of text.
    #[schema(value_type = InputContent)]
    content: ContentInput,
    /// The client's own id of the message, 1 to 128 of letters, digits, `_`, `.` and `-`. A second
    /// request with the same id and content returns the same run.
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    id: Option<String>,
    /// True to answer with an event stream, like `Accept: text/event-stream`.
    #[serde(default)]
    pub(super) stream: bool,
    /// The limits of the run; the session's where absent.
    #[serde(default, deserialize_with = "object")]
    limits: Limits,
    /// The use of tools in the first round; the session's where absent.
    #[serde(default, deserialize_with = "some_object")]
    #[schema(value_type = ToolChoice)]
    tool_choice: Option<ToolChoice>,
    /// The effect on a busy session. `queue`: the message is queued. `reject`: 409 `session_busy`.
    /// `interrupt`: the active run is cancelled and the message is accepted, both or neither;
    /// queued messages stay before it. When absent, the operator's choice, by default `queue`.
    #[serde(default, deserialize_with = "optional_string_enum")]
    on_busy: Option<OnBusy>,
    /// Tools that the client runs, for this run only, after those of the session.
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

impl CreateMessage {
    /// Refuses members that a browser cannot decide on. The handler of the route has checked the
    /// scope `post`.
    pub(super) fn check_browser(&self, caller: &Caller, default: OnBusy) -> Result<(), ApiError> {
        if self.on_busy.unwrap_or(default) == OnBusy::Interrupt {
            caller.require(BrowserScope::Cancel)?;
        }
        let has_parameters = self.model.is_some()
            || self.effort.is_some()
            || self.thinking.is_some()
            || self.temperature.is_some()
            || self.top_p.is_some()
            || self.top_k.is_some()
            || self.seed.is_some()
            || self.stop_sequences.is_some()
            || self.extra_body.is_some();
        let has_settings = self.permission_mode.is_some() || self.limits != Limits::default();
        if caller.is_browser() && (has_settings || has_parameters) {
            let reason = "`permission_mode`, `limits`, the model and parameters of generation of a \
                          message need an API key";
            return Err(ApiError::NoBrowserTokens(reason));
        }
        Ok(())
    }
}

impl From<CreateMessage> for MessageInput {
    fn from(body: CreateMessage) -> Self {
        let generation = Generation {
            temperature: body.temperature,
            top_p: body.top_p,
            top_k: body.top_k,
            seed: body.seed,
            extra_body: body.extra_body,
        };
        Self {
            content: body.content,
            id: body.id,
            limits: body.limits,
            tool_choice: body.tool_choice,
            on_busy: body.on_busy,
            tools: body.tools,
            permission_mode: body.permission_mode,
            generation,
            stop_sequences: body.stop_sequences,
            model_change: ModelChange {
                model: body.model,
                effort: body.effort,
                thinking: body.thinking,
            },
        }
    }
}
