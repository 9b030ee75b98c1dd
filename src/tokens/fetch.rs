//! Asking a provider for its keys.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use serde::Deserialize;

use super::jwks::{BadSet, KeySet};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How large it may be, in bytes.
const MAX_BODY: usize = 512 * 1024;
/// Where a provider says where its keys are (OIDC Discovery, section 4).
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// A provider that cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum BadUrl {
    /// Whoever stands between could give keys of their own.
    #[error("{0:?} is neither an https URL nor an http one of this machine")]
    Open(String),
    /// It would be shown with the rest of the URL.
    #[error("the provider's URL has a user name or a password")]
    Credentials,
    /// TLS or the resolver did not start.
    #[error("the HTTP client did not start: {0}")]
    Client(#[from] reqwest::Error),
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// Nobody answered, or not to the end.
    #[error("the provider gives no answer: {0}")]
    Http(#[from] reqwest::Error),
    /// Nothing else than 200 is followed.
    #[error("the provider answers with {0}")]
    Status(StatusCode),
    /// More than is read.
    #[error("the provider's answer is larger than {MAX_BODY} bytes")]
    TooLarge,
    /// It says where its keys are in no way that can be read.
    #[error("the discovery document cannot be read: {0}")]
    Document(#[from] serde_json::Error),
    /// It speaks for somebody else.
    #[error("the discovery document is of another issuer")]
    Issuer,
    /// It names a place that must not be asked.
    #[error("the discovery document names keys that cannot be asked for: {0}")]
    Place(#[from] BadUrl),
    /// It has keys that cannot be used.
    #[error("the provider's keys cannot be read: {0}")]
    Set(#[from] BadSet),
}

/// Where a provider's keys are.
#[derive(Debug)]
pub(super) struct Provider {
    http: Client,
    issuer: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Keys(Url),
    /// It says so in this document.
    Discovery(Url),
}

impl Place {
    /// Whether it is on this machine, and asked in the clear.
    fn is_local(&self) -> bool {
        let (Self::Keys(url) | Self::Discovery(url)) = self;
        url.scheme() == "http"
    }
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
}

impl Provider {
    pub(super) fn new(issuer: &str, jwks_url: Option<Url>) -> Result<Self, BadUrl> {
        let place = if let Some(url) = jwks_url {
            Place::Keys(askable(url.as_str())?)
        } else {
            let document = format!("{}{DISCOVERY}", issuer.trim_end_matches('/'));
            Place::Discovery(askable(&document)?)
        };
        let mut http = Client::builder()
            .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .timeout(TIMEOUT);
        if place.is_local() {
            // Nobody else may answer in its place.
            http = http.no_proxy();
        }
        let http = http.build()?;
        Ok(Self { http, issuer: issuer.to_owned(), place })
    }

    /// The keys that it publishes now.
    pub(super) async fn keys(&self) -> Result<KeySet, FetchError> {
        let body = match &self.place {
            Place::Keys(url) => self.get(url.clone()).await?,
            Place::Discovery(url) => {
                let Document { issuer, jwks_uri } =
                    serde_json::from_slice(&self.get(url.clone()).await?)?;
                if issuer != self.issuer {
                    return Err(FetchError::Issuer);
                }
                let keys = askable(&jwks_uri)?;
                if keys.scheme() != url.scheme() {
                    return Err(BadUrl::Open(jwks_uri).into());
                }
                self.get(keys).await?
            }
        };
        Ok(KeySet::read(&body)?)
    }

    async fn get(&self, url: Url) -> Result<Vec<u8>, FetchError> {
        let mut response = self.http.get(url).send().await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(FetchError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// A URL, if nobody else can answer in its place.
fn askable(text: &str) -> Result<Url, BadUrl> {
    let url: Url = text.parse().map_err(|_| BadUrl::Open(text.to_owned()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadUrl::Credentials);
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => Err(BadUrl::Open(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_by_a_way_on_which_nobody_can_change_them() {
        for (url, is_good) in [
            ("https://id.example/realms/a", true),
            ("http://127.0.0.1:9000/keys", true),
            ("http://[::1]/keys", true),
            ("http://localhost:9000/", true),
            ("http://id.example/", false),
            ("http://127.0.0.1.example/", false),
            ("http://localhost.example/", false),
            ("file:///keys.json", false),
            ("ftp://localhost/", false),
            ("id.example", false),
            ("", false),
            ("https://me:secret@id.example/", false),
        ] {
            assert_eq!(askable(url).is_ok(), is_good, "{url}");
        }
    }
}
