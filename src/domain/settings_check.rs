//! Checks of settings against the capabilities of a model.

use std::borrow::Cow;

use serde::Deserialize;

use super::model::{Capabilities, Effort, ThinkingKind};
use super::plain_message::plain_message;
use super::session::Settings;
use super::strict_tools::has_strict;

/// Minimum token budget of thinking.
const MIN_BUDGET: u64 = 1024;

/// A setting that the model does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedSetting {
    /// The member of the session, as a JSON pointer.
    pub pointer: Cow<'static, str>,
    /// The reason.
    pub reason: String,
}

/// The checked members of a thinking setting.
#[derive(Deserialize)]
struct Thinking {
    r#type: String,
    #[serde(default)]
    budget_tokens: Option<u64>,
}

impl Capabilities {
    /// Returns the settings that the model does not support.
    pub fn refusals(&self, settings: &Settings) -> Vec<UnsupportedSetting> {
        let mut found = Vec::new();
        let mut refuse = |pointer, reason| {
            found.push(UnsupportedSetting { pointer: Cow::Borrowed(pointer), reason });
        };
        let Settings { model, max_tokens, .. } = settings;
        if let Some(most) = self.max_tokens.filter(|most| max_tokens > most) {
            refuse("/max_tokens", format!("is more than {most}, the most that {model} takes"));
        }
        let effort = settings.model_options.effort;
        if let (Some(effort), Some(levels)) = (effort, &self.effort)
            && !levels.contains(&effort)
        {
            let levels: Vec<&str> = levels.iter().map(|level| level.as_str()).collect();
            refuse("/effort", not_among(model, effort.as_str(), &levels));
        }
        if settings.model_options.output_schema.is_some() && self.structured_outputs == Some(false)
        {
            refuse("/output_schema", format!("is not supported by {model}"));
        }
        if self.structured_outputs == Some(false) && has_strict(&settings.tools) {
            let reason = format!("has strict tools, which are not supported by {model}");
            refuse("/tools", reason);
        }
        found.extend(self.context_refusal(settings));
        found.extend(self.thinking_refusal(settings));
        found
    }

    fn context_refusal(&self, settings: &Settings) -> Option<UnsupportedSetting> {
        let Settings { model, context, .. } = settings;
        let refused =
            |pointer, reason| Some(UnsupportedSetting { pointer: Cow::Borrowed(pointer), reason });
        let unsupported = || format!("is not supported by {model}");
        if let Some(edits) = &context.edits {
            let cannot = self.context_management == Some(false)
                || (context.may_compact_within_reply() && self.compaction == Some(false));
            if cannot {
                return refused("/context/edits", unsupported());
            }
            if edits.get().contains(r#""clear_thinking_"#) && self.never_thinks(settings) {
                let reason = "clear_thinking_20251015 needs thinking to be enabled or adaptive";
                return refused("/context/edits", reason.to_owned());
            }
        }
        let at = context.compact_at?;
        if self.compaction == Some(false) {
            return refused("/context/compact_at", unsupported());
        }
        let is_more = |most: &u64| u64::try_from(at).is_ok_and(|at| at > *most);
        let window = self.max_input_tokens.filter(is_more)?;
        refused("/context/compact_at", format!("is more than the {window} tokens of {model}"))
    }

    /// Returns `true` if the session's requests never use thinking. Models with a thinking budget
    /// do not think by default.
    fn never_thinks(&self, settings: &Settings) -> bool {
        match &settings.thinking {
            Some(thinking) => serde_json::from_str::<Thinking>(thinking.get())
                .is_ok_and(|thinking| thinking.r#type == ThinkingKind::Disabled.as_str()),
            None => {
                self.thinking.as_ref().is_some_and(|kinds| kinds.contains(&ThinkingKind::Enabled))
            }
        }
    }

    fn thinking_refusal(&self, settings: &Settings) -> Option<UnsupportedSetting> {
        let kinds = self.thinking.as_ref()?;
        let model = &settings.model;
        let refused =
            |pointer, reason| Some(UnsupportedSetting { pointer: Cow::Borrowed(pointer), reason });
        let thinking: Thinking = match serde_json::from_str(settings.thinking.as_ref()?.get()) {
            Ok(thinking) => thinking,
            Err(error) => return refused("/thinking", plain_message(&error.to_string())),
        };
        let Some(kind) = kinds.iter().find(|kind| kind.as_str() == thinking.r#type) else {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
            return refused("/thinking/type", not_among(model, &thinking.r#type, &kinds));
        };
        match kind {
            ThinkingKind::Enabled => {
                let budget = thinking.budget_tokens.unwrap_or_default();
                let fits = (MIN_BUDGET..u64::from(settings.max_tokens)).contains(&budget);
                let reason = format!("is not from {MIN_BUDGET} to less than max_tokens");
                if fits { None } else { refused("/thinking/budget_tokens", reason) }
            }
            ThinkingKind::Disabled => {
                let (effort, most) =
                    (settings.model_options.effort?, self.max_effort_without_thinking?);
                let is_more = effort > most;
                is_more.then(|| disabled_at(model, effort, most))
            }
            ThinkingKind::Adaptive | ThinkingKind::BetweenTools => None,
        }
    }
}

fn disabled_at(model: &str, effort: Effort, most: Effort) -> UnsupportedSetting {
    let (effort, most) = (effort.as_str(), most.as_str());
    let reason =
        format!("{model} thinks at the effort {effort}: it can be disabled up to {most} only");
    UnsupportedSetting { pointer: Cow::Borrowed("/thinking/type"), reason }
}

fn not_among(model: &str, word: &str, taken: &[&str]) -> String {
    if taken.is_empty() {
        return format!("is not supported by {model}");
    }
    format!("{word:?} is not supported by {model}, which takes {}", taken.join(", "))
}
