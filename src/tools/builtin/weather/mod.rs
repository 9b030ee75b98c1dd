//! Client of the Open-Meteo weather API.

mod location;
mod states;
mod words;

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::tools::error::ToolError;
pub(super) use location::Location;
pub(super) use words::words;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum size of a response, in bytes. Usual responses have a few hundred bytes.
const MAX_ANSWER: usize = 256 * 1024;

/// A weather service with the Open-Meteo API.
#[derive(Debug, Clone)]
pub struct OpenMeteo {
    http: Client,
    forecast: Url,
    geocoding: Url,
}

/// The reason why a weather service cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum BadOpenMeteo {
    /// Paths cannot be appended to the base URL.
    #[error("the URL {0} cannot be extended by a path")]
    BaseUrl(Url),
    /// The HTTP client could not be created.
    #[error("the HTTP client did not start: {0}")]
    Http(#[from] reqwest::Error),
}

/// A scale of temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    #[default]
    Celsius,
    Fahrenheit,
}

impl Unit {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Celsius => "celsius",
            Self::Fahrenheit => "fahrenheit",
        }
    }
}

/// The current weather at a location.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Now {
    #[serde(rename = "temperature_2m")]
    pub(super) temperature: f64,
    pub(super) weather_code: u8,
}

impl OpenMeteo {
    /// Creates a client of the given base URLs. The client appends `/v1/...`.
    pub fn new(forecast: &Url, geocoding: &Url) -> Result<Self, BadOpenMeteo> {
        let http = Client::builder()
            .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .build()?;
        Ok(Self {
            http,
            forecast: with_path(forecast, "forecast")?,
            geocoding: with_path(geocoding, "search")?,
        })
    }

    /// Finds a location by its name.
    pub(super) async fn find_location(&self, name: &str) -> Result<Location, ToolError> {
        #[derive(Deserialize)]
        struct GeocodingResponse {
            /// Absent if there are no results.
            #[serde(default)]
            results: Vec<Location>,
        }
        let query = [("name", location::first_part(name)), ("count", "20"), ("language", "en")];
        let answer: GeocodingResponse = self.get(&self.geocoding, &query).await?;
        location::choose(name, answer.results)
            .ok_or_else(|| ToolError::Failed(format!("no location named {name:?} is known")))
    }

    /// Requests the current weather at a location.
    pub(super) async fn now(&self, location: &Location, unit: Unit) -> Result<Now, ToolError> {
        #[derive(Deserialize)]
        struct ForecastResponse {
            current: Now,
        }
        let (latitude, longitude) = (location.latitude.to_string(), location.longitude.to_string());
        let query = [
            ("latitude", latitude.as_str()),
            ("longitude", longitude.as_str()),
            ("current", "temperature_2m,weather_code"),
            ("temperature_unit", unit.as_str()),
        ];
        let answer: ForecastResponse = self.get(&self.forecast, &query).await?;
        Ok(answer.current)
    }

    async fn get<T: DeserializeOwned>(
        &self,
        url: &Url,
        query: &[(&str, &str)],
    ) -> Result<T, ToolError> {
        let mut url = url.clone();
        url.query_pairs_mut().extend_pairs(query);
        let mut response = self.http.get(url).send().await.map_err(unreachable)?;
        let status = response.status();
        if !status.is_success() {
            let why = format!("the weather service answered with status {}", status.as_u16());
            return Err(ToolError::Failed(why));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER {
                let why = "the response of the weather service is too long";
                return Err(ToolError::Failed(why.to_owned()));
            }
        }
        serde_json::from_slice(&body).map_err(|error| {
            tracing::warn!(%error, "response of the weather service could not be parsed");
            ToolError::Failed("the response of the weather service cannot be parsed".to_owned())
        })
    }
}

fn with_path(url: &Url, last: &str) -> Result<Url, BadOpenMeteo> {
    let mut extended = url.clone();
    let mut segments =
        extended.path_segments_mut().map_err(|()| BadOpenMeteo::BaseUrl(url.clone()))?;
    segments.pop_if_empty().extend(["v1", last]);
    drop(segments);
    Ok(extended)
}

fn unreachable(error: reqwest::Error) -> ToolError {
    let error = error.without_url();
    tracing::warn!(%error, "weather service unreachable");
    ToolError::of_request(&error, "the weather service")
}
