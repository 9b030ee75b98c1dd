//! `get_weather`: the current weather at a location.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::weather::{OpenMeteo, Unit, words};
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::{Output, ToolContext, ToolError, TypedTool};

#[derive(Debug)]
pub(super) struct GetWeather(pub(super) Arc<OpenMeteo>);

/// Where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// A town, with its state or country where there are several of its name, such as
    /// `San Francisco, CA`.
    location: String,
    /// The scale of the temperature.
    #[serde(default)]
    unit: Unit,
}

impl TypedTool for GetWeather {
    const NAME: &'static str = "get_weather";
    const DESCRIPTION: &'static str = "Tells the weather at a place now: its temperature and what \
        the sky does, with the place that was meant. Use it when an answer depends on the weather. \
        It knows no other time than the present.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Network;
    type Input = Input;

    async fn run(&self, _context: &ToolContext, input: Input) -> Result<Output, ToolError> {
        let location = self.0.find_location(&input.location).await?;
        let now = self.0.now(&location, input.unit).await?;
        let (degrees, unit) = (now.temperature, input.unit.as_str());
        let (sky, place) = (words(now.weather_code), location.full_name());
        Ok(format!("{degrees} degrees {unit}, {sky} in {place}").into())
    }
}
