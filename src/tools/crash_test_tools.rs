//! Tools for the crash test: one with an effect outside of the database, and a slow one.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use crate::domain::tool::{ToolClass, ToolTiming};
use crate::faults::{self, Point};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::{Tool, ToolContext};
use crate::tools::typed::{Typed, TypedTool};

/// Returns the tools if a trace file is configured.
pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    let Some(file) = faults::trace_file() else { return Vec::new() };
    vec![Arc::new(Typed(WriteTrace { file })), Arc::new(Typed(Sleep))]
}

#[derive(Debug)]
struct WriteTrace {
    file: PathBuf,
}

/// How long to take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteTraceInput {
    /// Milliseconds before the trace is written.
    #[serde(default)]
    before_ms: u64,
    /// Milliseconds after the trace is written.
    #[serde(default)]
    after_ms: u64,
}

impl TypedTool for WriteTrace {
    const NAME: &'static str = "witness";
    const DESCRIPTION: &'static str = "Appends the call to the trace file.";
    const CLASS: ToolClass = ToolClass::Effect;
    const TIMING: ToolTiming = ToolTiming::Variable;
    type Input = WriteTraceInput;

    async fn run(
        &self,
        context: &ToolContext,
        input: WriteTraceInput,
    ) -> Result<Output, ToolError> {
        faults::point(Point::CallRunning).await;
        sleep(Duration::from_millis(input.before_ms)).await;
        let trace = format!("{} {}\n", context.tool_use_id, context.claim.attempt);
        // A single write keeps the lines of concurrent processes separate.
        File::options()
            .append(true)
            .create(true)
            .open(&self.file)
            .and_then(|mut file| file.write_all(trace.as_bytes()))
            .map_err(|error| ToolError::Failed(error.to_string()))?;
        sleep(Duration::from_millis(input.after_ms)).await;
        Ok("Witnessed.".to_owned().into())
    }
}

#[derive(Debug)]
struct Sleep;

/// How long to take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SleepInput {
    /// Milliseconds.
    ms: u64,
}

impl TypedTool for Sleep {
    const NAME: &'static str = "dawdle";
    const DESCRIPTION: &'static str = "Waits and changes nothing.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Variable;
    type Input = SleepInput;

    async fn run(&self, _context: &ToolContext, input: SleepInput) -> Result<Output, ToolError> {
        sleep(Duration::from_millis(input.ms)).await;
        Ok(format!("Waited {} ms.", input.ms).into())
    }
}
