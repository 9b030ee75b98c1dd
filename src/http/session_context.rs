//! How sessions are to keep their conversations within the model's window.

use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use crate::domain::context::Context;
use crate::http::error::{ApiError, FieldError};
use crate::http::extract::json_body::{object, object_lists};
use crate::http::inherited_fields::InheritedFields;

/// Characters of the words that a summary is asked for with.
const MAX_INSTRUCTIONS: usize = 16_384;
/// The fewest tokens at which a history is summed up before a run.
pub const MIN_COMPACT_AT: i64 = 1000;
/// The fewest tokens at which the model's side sums up by itself.
const MIN_TRIGGER: i64 = 50_000;

/// How the conversation is kept within the model's window.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SessionContext {
    /// What the model's side leaves out of what it is sent, each kind once at most,
    /// `clear_thinking_20251015` first.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object_lists")]
    #[schema(value_type = Vec<Edit>)]
    edits: Option<Vec<Edit>>,
    /// A run whose first request would have so many tokens has what came before summed up by the
    /// model's side; 0 for never. When absent, what the operator chose, or four fifths of the
    /// model's window where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub(in crate::http) compact_at: Option<i64>,
    /// What is asked of the summary, at most 16,384 characters; the model's side has words of its
    /// own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compact_instructions: Option<String>,
}

/// An edit that the model's side makes.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", deny_unknown_fields)]
enum Edit {
    /// Leaves out thinking of earlier turns.
    #[serde(rename = "clear_thinking_20251015")]
    ClearThinking {
        /// `"all"`, or so many turns (`thinking_turns`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<Keep>,
    },
    /// Leaves out results of tools.
    #[serde(rename = "clear_tool_uses_20250919")]
    ClearToolUses {
        /// When: at so many `input_tokens` or `tool_uses`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger: Option<Amount>,
        /// How many of the newest stay: `tool_uses`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<Amount>,
        /// How much has to go for it to be worth while: `input_tokens`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clear_at_least: Option<Amount>,
        /// Names of tools whose results stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exclude_tools: Option<Vec<String>>,
        /// Whether the inputs go as well, or of which tools.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clear_tool_inputs: Option<Inputs>,
    },
    /// Sums up what came before, within a reply.
    #[serde(rename = "compact_20260112")]
    Compact {
        /// When: at so many `input_tokens`, 50,000 at least.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger: Option<Amount>,
        /// Whether the reply pauses after the summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause_after_compaction: Option<bool>,
        /// What is asked of the summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
}

/// Whose inputs go.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum Inputs {
    /// All, or none.
    All(bool),
    /// Those of these tools.
    Of(Vec<String>),
}

/// So much of something.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct Amount {
    /// Of what.
    r#type: String,
    /// How much.
    #[schema(minimum = 0)]
    value: i64,
}

/// How much thinking stays.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum Keep {
    /// `all`.
    Word(String),
    /// So many turns.
    Turns(#[serde(deserialize_with = "object")] Amount),
}

impl Edit {
    const fn name(&self) -> &'static str {
        match self {
            Self::ClearThinking { .. } => "clear_thinking_20251015",
            Self::ClearToolUses { .. } => "clear_tool_uses_20250919",
            Self::Compact { .. } => "compact_20260112",
        }
    }

    /// What is wrong with it: the member, and why.
    fn problems(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::ClearThinking { keep } => match keep {
                None => Vec::new(),
                Some(Keep::Word(word)) if word == "all" => Vec::new(),
                Some(Keep::Word(_)) => vec![("keep", "is not \"all\" or an amount".to_owned())],
                Some(Keep::Turns(turns)) => turns.problem("keep", &["thinking_turns"], 1),
            },
            Self::ClearToolUses {
                trigger,
                keep,
                clear_at_least,
                exclude_tools,
                clear_tool_inputs,
            } => {
                let amounts = [
                    ("trigger", trigger, &["input_tokens", "tool_uses"][..], 1),
                    ("keep", keep, &["tool_uses"], 0),
                    ("clear_at_least", clear_at_least, &["input_tokens"], 0),
                ];
                let amounts = amounts.into_iter().filter_map(|(name, amount, units, least)| {
                    Some(amount.as_ref()?.problem(name, units, least))
                });
                let inputs = match clear_tool_inputs {
                    Some(Inputs::Of(names)) => Some(names),
                    Some(Inputs::All(_)) | None => None,
                };
                let names =
                    [("exclude_tools", exclude_tools.as_ref()), ("clear_tool_inputs", inputs)];
                let odd =
                    names.into_iter().filter(|(_, names)| names.is_some_and(|it| are_odd(it)));
                let reason = || "is not a list of at most 256 names of tools".to_owned();
                amounts.flatten().chain(odd.map(|(name, _)| (name, reason()))).collect()
            }
            Self::Compact { trigger, instructions, .. } => {
                let trigger = trigger.as_ref();
                let mut problems: Vec<_> = trigger
                    .map(|amount| amount.problem("trigger", &["input_tokens"], MIN_TRIGGER))
                    .unwrap_or_default();
                let odd = instructions.as_deref().and_then(odd_instructions);
                problems.extend(odd.map(|reason| ("instructions", reason)));
                problems
            }
        }
    }
}

impl Amount {
    fn problem(
        &self,
        name: &'static str,
        units: &[&str],
        least: i64,
    ) -> Vec<(&'static str, String)> {
        if !units.contains(&self.r#type.as_str()) {
            return vec![(name, format!("has a type that is not {}", units.join(" or ")))];
        }
        if self.value < least {
            return vec![(name, format!("is less than {least}"))];
        }
        Vec::new()
    }
}

/// Whether these cannot be names of tools.
fn are_odd(names: &[String]) -> bool {
    let is_odd =
        |name: &String| name.is_empty() || name.len() > 128 || name.chars().any(char::is_control);
    names.len() > 256 || names.iter().any(is_odd)
}

fn odd_instructions(text: &str) -> Option<String> {
    let is_odd =
        text.trim().is_empty() || text.contains('\0') || text.chars().count() > MAX_INSTRUCTIONS;
    is_odd.then(|| format!("is blank, has a NUL, or is longer than {MAX_INSTRUCTIONS} characters"))
}

impl SessionContext {
    /// What is wrong with it.
    pub(in crate::http) fn problems(&self) -> Vec<FieldError> {
        let error = |pointer: String, message: String| FieldError { pointer, message };
        let mut errors = Vec::new();
        let edits = self.edits.as_deref().unwrap_or_default();
        for (index, edit) in edits.iter().enumerate() {
            let place = format!("/context/edits/{index}");
            let mut others = edits.iter().take(index);
            if others.any(|other| other.name() == edit.name()) {
                errors.push(error(place.clone(), "is there already".to_owned()));
            } else if index > 0 && matches!(edit, Edit::ClearThinking { .. }) {
                errors.push(error(place.clone(), "has to be the first edit".to_owned()));
            }
            for (member, reason) in edit.problems() {
                errors.push(error(format!("{place}/{member}"), reason));
            }
        }
        if let Some(at) = self.compact_at.filter(|at| *at != 0) {
            if at < MIN_COMPACT_AT {
                let reason = format!("is neither 0 nor {MIN_COMPACT_AT} or more");
                errors.push(error("/context/compact_at".to_owned(), reason));
            } else if self.compacts_by_itself() {
                let reason = "does not go together with the edit compact_20260112".to_owned();
                errors.push(error("/context/compact_at".to_owned(), reason));
            }
        }
        if let Some(reason) = self.compact_instructions.as_deref().and_then(odd_instructions) {
            errors.push(error("/context/compact_instructions".to_owned(), reason));
        }
        errors
    }

    /// Takes what it does not say from another one.
    pub(in crate::http) fn fill(&mut self, other: Self, taken: &mut InheritedFields) {
        let Self { edits, compact_at, compact_instructions } = other;
        taken.fill("/context/edits", &mut self.edits, edits);
        taken.fill("/context/compact_at", &mut self.compact_at, compact_at);
        let own = &mut self.compact_instructions;
        taken.fill("/context/compact_instructions", own, compact_instructions);
    }

    /// Whether it says nothing.
    pub(in crate::http) fn is_unset(&self) -> bool {
        let Self { edits, compact_at, compact_instructions } = self;
        edits.is_none() && compact_at.is_none() && compact_instructions.is_none()
    }

    /// Whether the model's side sums up by itself.
    pub(in crate::http) fn compacts_by_itself(&self) -> bool {
        self.edits.iter().flatten().any(|edit| matches!(edit, Edit::Compact { .. }))
    }

    /// What is pinned, with the tokens at which a history is summed up before a run.
    pub(in crate::http) fn into_context(
        self,
        compact_at: Option<i64>,
    ) -> Result<Context, ApiError> {
        let edits = self.edits.filter(|edits| !edits.is_empty()).map(|edits| to_raw_value(&edits));
        let edits = edits.transpose().map_err(|error| ApiError::Internal(error.to_string()))?;
        let compact_instructions = self.compact_instructions;
        Ok(Context { edits, compact_at, compact_instructions, compact_max_tokens: None })
    }
}
