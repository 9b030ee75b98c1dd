//! `get_weather`: the current weather at a location.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::weather::{OpenMeteo, Unit, words};
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

#[derive(Debug)]
pub(super) struct GetWeather(pub(super) Arc<OpenMeteo>);

/// A location and a temperature scale.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetWeatherInput {
    /// The name of a town, with its state or country if several towns have that name, such as `San
    /// Francisco, CA`.
    location: String,
    /// The scale of the temperature.
    #[serde(default)]
    unit: Unit,
}

impl TypedTool for GetWeather {
    const NAME: &'static str = "get_weather";
    const DESCRIPTION: &'static str = "Returns the current weather at a location: the temperature, \
        the conditions, and the full name of the location that was found. Use it when an answer \
        depends on the weather. It has no forecasts and no past weather.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Network;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::PublicWeb;
    type Input = GetWeatherInput;

    async fn run(
        &self,
        _context: &ToolContext,
        input: GetWeatherInput,
    ) -> Result<Output, ToolError> {
        let location = self.0.find_location(&input.location).await?;
        let now = self.0.now(&location, input.unit).await?;
        let (degrees, unit) = (now.temperature, input.unit.as_str());
        let (sky, place) = (words(now.weather_code), location.full_name());
        Ok(format!("{degrees} degrees {unit}, {sky} in {place}").into())
    }
}
