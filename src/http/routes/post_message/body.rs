//! The body of a posted message.

use serde::Deserialize;

use crate::domain::browser_token::BrowserScope;
use crate::domain::limits::Limits;
use crate::domain::permission::PermissionMode;
use crate::domain::run_options::OnBusy;
use crate::domain::string_enum::optional_string_enum;
use crate::domain::tool::ToolChoice;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::service::client_tool::ClientTool;
use crate::service::content::{ContentInput, InputContent};
use crate::service::json::{object, objects, some_object};
use crate::service::messages::MessageInput;

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
}

impl CreateMessage {
    /// Refuses members that a browser cannot decide on. The handler of the route has checked the
    /// scope `post`.
    pub(super) fn check_browser(&self, caller: &Caller, default: OnBusy) -> Result<(), ApiError> {
        if self.on_busy.unwrap_or(default) == OnBusy::Interrupt {
            caller.require(BrowserScope::Cancel)?;
        }
        let has_settings = self.permission_mode.is_some() || self.limits != Limits::default();
        if caller.is_browser() && has_settings {
            let reason = "`permission_mode` and `limits` of a message need an API key";
            return Err(ApiError::NoBrowserTokens(reason));
        }
        Ok(())
    }
}

impl From<CreateMessage> for MessageInput {
    fn from(body: CreateMessage) -> Self {
        let CreateMessage { content, id, limits, tool_choice, on_busy, tools, .. } = body;
        let permission_mode = body.permission_mode;
        Self { content, id, limits, tool_choice, on_busy, tools, permission_mode }
    }
}
