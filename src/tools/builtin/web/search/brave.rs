//! Client of the Brave Search API.

use http::header::InvalidHeaderValue;
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::SearchResult;
use html_to_markdown::plain_text;

pub(super) const PATH: [&str; 4] = ["res", "v1", "web", "search"];
/// The maximum number of results of one request. The domain filter may remove some of them.
const COUNT: &str = "20";

#[derive(Deserialize)]
struct BraveResponse {
    /// Absent if there are no results.
    #[serde(default)]
    web: Web,
}

#[derive(Default, Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    title: String,
    url: String,
    /// The description, with tags around the search terms.
    #[serde(default)]
    description: String,
}

pub(super) fn headers(key: &SecretString) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut key = HeaderValue::from_str(key.expose_secret())?;
    key.set_sensitive(true);
    let json = HeaderValue::from_static("application/json");
    let named = [(HeaderName::from_static("x-subscription-token"), key), (ACCEPT, json)];
    Ok(named.into_iter().collect())
}

pub(super) fn request_url(url: &Url, query: &str) -> Url {
    let mut url = url.clone();
    url.query_pairs_mut().extend_pairs([("q", query), ("count", COUNT)]);
    url
}

pub(super) fn results(answer: &[u8]) -> serde_json::Result<Vec<SearchResult>> {
    let BraveResponse { web } = serde_json::from_slice(answer)?;
    let found = |page: Page| {
        SearchResult::new(&plain_text(&page.title), page.url, &plain_text(&page.description))
    };
    Ok(web.results.into_iter().map(found).collect())
}
