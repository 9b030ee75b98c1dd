//! `get_time`: the current time in a time zone.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

#[derive(Debug)]
pub(super) struct GetTime;

/// A time zone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetTimeInput {
    /// A name of the IANA time zone database, such as `Europe/Oslo`.
    #[serde(default = "utc")]
    timezone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

#[derive(Serialize)]
struct GetTimeOutput {
    timezone: String,
    time: String,
    weekday: String,
}

impl TypedTool for GetTime {
    const NAME: &'static str = "get_time";
    const DESCRIPTION: &'static str = "Returns the current date and time in a time zone, with its \
        offset from UTC and the day of the week, as JSON. Use it whenever an answer depends on the \
        current date or time. It returns no other time.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Model;
    type Input = GetTimeInput;

    async fn run(&self, _context: &ToolContext, input: GetTimeInput) -> Result<Output, ToolError> {
        let now = Timestamp::now().in_tz(&input.timezone).map_err(|_| {
            ToolError::Invalid(format!(
                "{:?} is not a time zone; use a name such as Europe/Oslo",
                input.timezone
            ))
        })?;
        Output::json(&GetTimeOutput {
            timezone: input.timezone,
            time: now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            weekday: now.strftime("%A").to_string(),
        })
    }
}
