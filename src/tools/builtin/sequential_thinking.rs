//! `sequential_thinking`: records a thought of the model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

#[derive(Debug)]
pub(super) struct SequentialThinking;

/// One thought of a chain.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SequentialThinkingInput {
    /// The number of this thought in the chain, from 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    thought_number: u32,
    /// The number of thoughts that the chain is expected to have.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    total_thoughts: u32,
    /// True if another thought follows.
    #[serde(default)]
    next_thought_needed: bool,
    /// The number of an earlier thought that this one corrects.
    #[serde(skip_serializing_if = "Option::is_none")]
    revises_thought: Option<u32>,
    /// The number of the thought that this one branches off from.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_from_thought: Option<u32>,
    /// The name of the branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_id: Option<String>,
    /// The thought itself.
    thought: String,
}

fn one() -> u32 {
    1
}

impl TypedTool for SequentialThinking {
    const NAME: &'static str = "sequential_thinking";
    const DESCRIPTION: &'static str = "Records one thought of a chain of thoughts, and returns it. \
        Use it to solve a problem of several steps, one call per thought, before you answer. It \
        searches nothing and changes nothing.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Model;
    type Input = SequentialThinkingInput;

    /// Returns the state of the chain. The thought is not stored separately, because the call and
    /// its result are in the history.
    async fn run(
        &self,
        _context: &ToolContext,
        mut input: SequentialThinkingInput,
    ) -> Result<Output, ToolError> {
        if input.thought.trim().is_empty() {
            return Err(ToolError::Invalid("the thought is empty".to_owned()));
        }
        // The chain is longer than the model expected.
        input.total_thoughts = input.total_thoughts.max(input.thought_number);
        Output::json(&input)
    }
}
