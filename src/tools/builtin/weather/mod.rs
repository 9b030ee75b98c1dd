//! The weather, as Open-Meteo tells it.

mod place;
mod states;
mod words;

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::tools::ToolError;
pub(super) use place::Place;
pub(super) use words::words;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(20);
/// How much of an answer is read; they have a few hundred bytes.
const MAX_ANSWER: usize = 256 * 1024;

/// A service with the interface of Open-Meteo.
#[derive(Debug, Clone)]
pub struct OpenMeteo {
    http: Client,
    forecast: Url,
    geocoding: Url,
}

/// A service of the weather that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadOpenMeteo {
    /// The base URL cannot have a path.
    #[error("the URL {0} cannot be extended by a path")]
    BaseUrl(Url),
    /// TLS or the resolver did not start.
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

/// The weather at some place now.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Now {
    #[serde(rename = "temperature_2m")]
    pub(super) temperature: f64,
    pub(super) weather_code: u8,
}

impl OpenMeteo {
    /// A service at these addresses, without the `/v1/...` that is added to them.
    pub fn new(forecast: &Url, geocoding: &Url) -> Result<Self, BadOpenMeteo> {
        let http = Client::builder()
            .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .build()?;
        Ok(Self {
            http,
            forecast: extended(forecast, "forecast")?,
            geocoding: extended(geocoding, "search")?,
        })
    }

    /// The place of this name.
    pub(super) async fn place(&self, name: &str) -> Result<Place, ToolError> {
        #[derive(Deserialize)]
        struct Answer {
            /// Left out when nothing was found.
            #[serde(default)]
            results: Vec<Place>,
        }
        let query = [("name", place::first_part(name)), ("count", "20"), ("language", "en")];
        let answer: Answer = self.get(&self.geocoding, &query).await?;
        place::choose(name, answer.results)
            .ok_or_else(|| ToolError::Failed(format!("no place called {name:?} is known")))
    }

    /// The weather at a place now.
    pub(super) async fn now(&self, place: &Place, unit: Unit) -> Result<Now, ToolError> {
        #[derive(Deserialize)]
        struct Answer {
            current: Now,
        }
        let (latitude, longitude) = (place.latitude.to_string(), place.longitude.to_string());
        let query = [
            ("latitude", latitude.as_str()),
            ("longitude", longitude.as_str()),
            ("current", "temperature_2m,weather_code"),
            ("temperature_unit", unit.as_str()),
        ];
        let answer: Answer = self.get(&self.forecast, &query).await?;
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
                let why = "the weather service gave an answer without end";
                return Err(ToolError::Failed(why.to_owned()));
            }
        }
        serde_json::from_slice(&body).map_err(|error| {
            tracing::warn!(%error, "the weather service gave an answer that cannot be read");
            ToolError::Failed("the weather service gave an answer that cannot be read".to_owned())
        })
    }
}

fn extended(url: &Url, last: &str) -> Result<Url, BadOpenMeteo> {
    let mut extended = url.clone();
    let mut segments =
        extended.path_segments_mut().map_err(|()| BadOpenMeteo::BaseUrl(url.clone()))?;
    segments.pop_if_empty().extend(["v1", last]);
    drop(segments);
    Ok(extended)
}

fn unreachable(error: reqwest::Error) -> ToolError {
    tracing::warn!(error = %error.without_url(), "the weather service cannot be reached");
    ToolError::Network("fetch failed: the weather service cannot be reached".to_owned())
}
