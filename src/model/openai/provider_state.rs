//! What a server must get back with its message: reasoning, and members that only this server
//! understands, such as signatures of reasoning. Servers refuse the results of tool calls without them.
//!
//! The history is in the format of the Messages API, in which a thinking block has a signature that only
//! its server understands. The state is stored there. Another protocol refuses the signature, and the
//! thinking is then left out for good, as after every change of the provider.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::raw_object::RawObject;

/// The beginning of a signature that holds a state.
const PREFIX: &str = "chat-completions:";

/// True if these messages have the state of a reply of a Chat Completions server.
pub fn has_provider_state(messages: &str) -> bool {
    messages.contains(PREFIX)
}

/// The state of one reply.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ProviderState {
    /// The place of the reasoning in the message; none if the reasoning is not sent back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<ThinkingPlace>,
    /// Other members of the message.
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(super) message: RawObject,
    /// Other members of each call, by the id of the call.
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(super) calls: RawObject,
}

/// The place of the reasoning in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ThinkingPlace {
    /// The member `reasoning_content`, as `DeepSeek` has it.
    ReasoningContent,
    /// The member `reasoning`, as `OpenRouter` and Groq have it.
    Reasoning,
    /// A part of `content`, as Mistral has it.
    Content,
}

impl ThinkingPlace {
    /// The name of the member.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ReasoningContent => "reasoning_content",
            Self::Reasoning => "reasoning",
            Self::Content => "content",
        }
    }
}

impl ProviderState {
    /// The signature that stores this state.
    pub(super) fn signature(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|state| format!("{PREFIX}{state}"))
    }

    /// Reads the state and the reasoning of a thinking block; `None` if another protocol made it.
    pub(super) fn of(block: &RawValue) -> Option<(Self, String)> {
        #[derive(Deserialize)]
        struct Thinking {
            thinking: String,
            signature: String,
        }
        let Thinking { thinking, signature } = serde_json::from_str(block.get()).ok()?;
        let state = serde_json::from_str(signature.strip_prefix(PREFIX)?).ok()?;
        Some((state, thinking))
    }
}
