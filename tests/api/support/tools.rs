//! Tools for tests.

use std::time::Duration;

use serde_json::json;
use twostep::domain::tool::{ToolClass, ToolTiming};
use twostep::tools::{Output, ToolContext, ToolError, TypedTool};

/// A tool that takes longer than any test.
#[derive(Debug)]
pub(crate) struct Endless<const IS_PURE: bool>;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

impl<const IS_PURE: bool> TypedTool for Endless<IS_PURE> {
    const NAME: &'static str = if IS_PURE { "ponder" } else { "launch" };
    const DESCRIPTION: &'static str = "Takes ten minutes.";
    const CLASS: ToolClass = if IS_PURE { ToolClass::Pure } else { ToolClass::Effect };
    const TIMING: ToolTiming = ToolTiming::Variable;
    type Input = Nothing;

    async fn run(&self, _context: &ToolContext, _input: Nothing) -> Result<Output, ToolError> {
        tokio::time::sleep(Duration::from_mins(10)).await;
        Output::json(&json!("too late"))
    }
}
