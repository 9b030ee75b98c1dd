//! The context management settings of a session: edits by the model's API and compaction.

use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use crate::domain::context::Context;
use crate::service::error::{Error, FieldError};
use crate::service::inherited_fields::InheritedFields;
use crate::service::json::{object, object_lists};

/// Maximum length of the instructions for a summary, in characters.
const MAX_INSTRUCTIONS: usize = 16_384;
/// The smallest `compact_at` that is accepted, in tokens.
pub const MIN_COMPACT_AT: i64 = 1000;
/// The smallest trigger that the model's API accepts for its own compaction, in tokens.
const MIN_TRIGGER: i64 = 50_000;

/// Context management: how the conversation is kept within the model's context window.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionContext {
    /// Context edits that the model's API applies to each request, at most one of each type,
    /// `clear_thinking_20251015` first.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object_lists")]
    #[schema(value_type = Vec<Edit>)]
    edits: Option<Vec<Edit>>,
    /// Compaction threshold in tokens; 0 disables compaction. If the first request of a run would
    /// reach it, the model's API summarizes the earlier messages first. When absent, the operator's
    /// setting applies, or four fifths of the model's context window where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub(super) compact_at: Option<i64>,
    /// Instructions for the summary, at most 16,384 characters. When absent, the model's API uses
    /// its own instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compact_instructions: Option<String>,
}

/// A context edit that the model's API applies.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", deny_unknown_fields)]
enum Edit {
    /// Removes the thinking blocks of earlier turns.
    #[serde(rename = "clear_thinking_20251015")]
    ClearThinking {
        /// The thinking to keep: `"all"`, or a number of turns (`thinking_turns`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<Keep>,
    },
    /// Removes tool results.
    #[serde(rename = "clear_tool_uses_20250919")]
    ClearToolUses {
        /// The threshold, in `input_tokens` or `tool_uses`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger: Option<Amount>,
        /// The number of most recent results to keep, in `tool_uses`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<Amount>,
        /// The minimum to remove, in `input_tokens`. If less could be removed, nothing is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clear_at_least: Option<Amount>,
        /// Names of tools whose results are kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exclude_tools: Option<Vec<String>>,
        /// Removes the inputs of the calls as well: `true`, or the names of tools.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clear_tool_inputs: Option<Inputs>,
    },
    /// Summarizes the conversation within a reply.
    #[serde(rename = "compact_20260112")]
    Compact {
        /// The threshold in `input_tokens`, at least 50,000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger: Option<Amount>,
        /// Pauses the reply after the summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause_after_compaction: Option<bool>,
        /// Instructions for the summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
}

/// The tools whose inputs are removed.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum Inputs {
    /// All tools, or none.
    All(bool),
    /// The tools with these names.
    Of(Vec<String>),
}

/// An amount with its unit.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct Amount {
    /// The unit.
    r#type: String,
    /// The number of units.
    #[schema(minimum = 0)]
    value: i64,
}

/// The thinking that is kept.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum Keep {
    /// `all`.
    Word(String),
    /// A number of turns.
    Turns(#[serde(deserialize_with = "object")] Amount),
}

/// A member of an edit that is not valid.
struct EditProblem {
    member: &'static str,
    message: String,
}

impl EditProblem {
    fn new(member: &'static str, message: impl Into<String>) -> Self {
        Self { member, message: message.into() }
    }
}

impl Edit {
    const fn name(&self) -> &'static str {
        match self {
            Self::ClearThinking { .. } => "clear_thinking_20251015",
            Self::ClearToolUses { .. } => "clear_tool_uses_20250919",
            Self::Compact { .. } => "compact_20260112",
        }
    }

    fn problems(&self) -> Vec<EditProblem> {
        match self {
            Self::ClearThinking { keep } => match keep {
                None => Vec::new(),
                Some(Keep::Word(word)) if word == "all" => Vec::new(),
                Some(Keep::Word(_)) => {
                    vec![EditProblem::new("keep", "is not \"all\" or an amount")]
                }
                Some(Keep::Turns(turns)) => {
                    turns.problem("keep", &["thinking_turns"], 1).into_iter().collect()
                }
            },
            Self::ClearToolUses {
                trigger,
                keep,
                clear_at_least,
                exclude_tools,
                clear_tool_inputs,
            } => {
                let check = |amount: &Option<Amount>, member, units: &[&str], least| {
                    amount.as_ref().and_then(|amount| amount.problem(member, units, least))
                };
                let amounts = [
                    check(trigger, "trigger", &["input_tokens", "tool_uses"], 1),
                    check(keep, "keep", &["tool_uses"], 0),
                    check(clear_at_least, "clear_at_least", &["input_tokens"], 0),
                ];
                let inputs = match clear_tool_inputs {
                    Some(Inputs::Of(names)) => Some(names),
                    Some(Inputs::All(_)) | None => None,
                };
                let names =
                    [("exclude_tools", exclude_tools.as_ref()), ("clear_tool_inputs", inputs)];
                let invalid = names
                    .into_iter()
                    .filter(|(_, names)| names.is_some_and(|names| !are_tool_names(names)));
                let message = "is not a list of at most 256 names of tools";
                let invalid = invalid.map(|(member, _)| EditProblem::new(member, message));
                amounts.into_iter().flatten().chain(invalid).collect()
            }
            Self::Compact { trigger, instructions, .. } => {
                let trigger = trigger.as_ref();
                let trigger = trigger
                    .and_then(|amount| amount.problem("trigger", &["input_tokens"], MIN_TRIGGER));
                let instructions = instructions.as_deref().and_then(instructions_problem);
                let instructions =
                    instructions.map(|message| EditProblem::new("instructions", message));
                trigger.into_iter().chain(instructions).collect()
            }
        }
    }
}

impl Amount {
    fn problem(&self, member: &'static str, units: &[&str], least: i64) -> Option<EditProblem> {
        if !units.contains(&self.r#type.as_str()) {
            let message = format!("has a type that is not {}", units.join(" or "));
            return Some(EditProblem::new(member, message));
        }
        (self.value < least).then(|| EditProblem::new(member, format!("is less than {least}")))
    }
}

fn are_tool_names(names: &[String]) -> bool {
    let is_name = |name: &String| {
        !name.is_empty() && name.len() <= 128 && !name.chars().any(char::is_control)
    };
    names.len() <= 256 && names.iter().all(is_name)
}

fn instructions_problem(text: &str) -> Option<String> {
    let is_invalid =
        text.trim().is_empty() || text.contains('\0') || text.chars().count() > MAX_INSTRUCTIONS;
    is_invalid.then(|| {
        format!("is blank, has a NUL character, or is longer than {MAX_INSTRUCTIONS} characters")
    })
}

impl SessionContext {
    /// The members that are not valid.
    pub(super) fn problems(&self) -> Vec<FieldError> {
        let mut errors = self.edit_problems();
        if let Some(at) = self.compact_at.filter(|at| *at != 0) {
            if at < MIN_COMPACT_AT {
                let message = format!("is neither 0 nor at least {MIN_COMPACT_AT}");
                errors.push(FieldError::new("/context/compact_at", message));
            } else if self.has_compact_edit() {
                let message = "cannot be combined with the edit compact_20260112";
                errors.push(FieldError::new("/context/compact_at", message));
            }
        }
        let instructions = self.compact_instructions.as_deref();
        if let Some(message) = instructions.and_then(instructions_problem) {
            errors.push(FieldError::new("/context/compact_instructions", message));
        }
        errors
    }

    fn edit_problems(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let edits = self.edits.as_deref().unwrap_or_default();
        for (index, edit) in edits.iter().enumerate() {
            let pointer = format!("/context/edits/{index}");
            let mut earlier = edits.iter().take(index);
            if earlier.any(|other| other.name() == edit.name()) {
                errors.push(FieldError::new(&pointer, "repeats an earlier edit"));
            } else if index > 0 && matches!(edit, Edit::ClearThinking { .. }) {
                errors.push(FieldError::new(&pointer, "has to be the first edit"));
            }
            for EditProblem { member, message } in edit.problems() {
                errors.push(FieldError::new(format!("{pointer}/{member}"), message));
            }
        }
        errors
    }

    /// Fills absent members from another context, and records them.
    pub(in crate::service) fn fill(&mut self, other: Self, inherited: &mut InheritedFields) {
        let Self { edits, compact_at, compact_instructions } = other;
        inherited.fill("/context/edits", &mut self.edits, edits);
        inherited.fill("/context/compact_at", &mut self.compact_at, compact_at);
        let own = &mut self.compact_instructions;
        inherited.fill("/context/compact_instructions", own, compact_instructions);
    }

    /// Returns true if no member is set.
    pub(in crate::service) fn is_unset(&self) -> bool {
        let Self { edits, compact_at, compact_instructions } = self;
        edits.is_none() && compact_at.is_none() && compact_instructions.is_none()
    }

    /// Returns true if the model's API compacts the conversation by an edit.
    pub(super) fn has_compact_edit(&self) -> bool {
        self.edits.iter().flatten().any(|edit| matches!(edit, Edit::Compact { .. }))
    }

    /// The pinned form, with the compaction threshold that applies to the session.
    pub(super) fn into_context(self, compact_at: Option<i64>) -> Result<Context, Error> {
        let edits = self.edits.filter(|edits| !edits.is_empty()).map(|edits| to_raw_value(&edits));
        let edits = edits.transpose().map_err(Error::internal)?;
        let compact_instructions = self.compact_instructions;
        Ok(Context { edits, compact_at, compact_instructions, compact_max_tokens: None })
    }
}
