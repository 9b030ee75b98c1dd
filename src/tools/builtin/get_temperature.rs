//! `get_temperature`: the current temperature in a city.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::weather::{OpenMeteo, Unit};
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

#[derive(Debug)]
pub(super) struct GetTemperature(pub(super) Arc<OpenMeteo>);

/// A city.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetTemperatureInput {
    /// The city's name.
    city: String,
}

impl TypedTool for GetTemperature {
    const NAME: &'static str = "get_temperature";
    const DESCRIPTION: &'static str = "Gets the current temperature in Celsius for the specified \
        city name, as a number. Use get_weather for more than that.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Network;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::PublicWeb;
    type Input = GetTemperatureInput;

    async fn run(
        &self,
        _context: &ToolContext,
        input: GetTemperatureInput,
    ) -> Result<Output, ToolError> {
        let location = self.0.find_location(&input.city).await?;
        Output::json(&self.0.now(&location, Unit::Celsius).await?.temperature)
    }
}
