//! The HTTP client for the identity provider's keys.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use serde::Deserialize;

use super::jwks::{BadSet, KeySet};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response, in bytes.
const MAX_BODY: usize = 512 * 1024;
/// The path of the discovery document (OIDC Discovery, section 4).
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// An error in the URL of a provider.
#[derive(Debug, thiserror::Error)]
pub enum BadUrl {
    /// The connection would not be encrypted, so an attacker could replace the keys.
    #[error("{0:?} is neither an https URL nor an http URL of this machine")]
    Open(String),
    /// The URL has credentials, which would appear in logs.
    #[error("the provider's URL has a user name or a password")]
    Credentials,
    /// The HTTP client could not be built.
    #[error("the HTTP client did not start: {0}")]
    Client(#[from] reqwest::Error),
}

/// The cause of a failed request for keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The request failed.
    #[error("the request to the provider failed: {0}")]
    Http(#[from] reqwest::Error),
    /// The response has a status other than 200.
    #[error("the provider answered with status {0}")]
    Status(StatusCode),
    /// The response exceeds the size limit.
    #[error("the provider's response is larger than {MAX_BODY} bytes")]
    TooLarge,
    /// The discovery document is not valid.
    #[error("the discovery document cannot be read: {0}")]
    DiscoveryDocument(#[from] serde_json::Error),
    /// The discovery document has another issuer.
    #[error("the discovery document has another issuer")]
    Issuer,
    /// The URL of the keys is not allowed.
    #[error("the discovery document has a URL of keys that is not allowed: {0}")]
    KeyLocation(#[from] BadUrl),
    /// The key set is not valid.
    #[error("the provider's keys cannot be read: {0}")]
    Set(#[from] BadSet),
}

/// A client of an identity provider.
#[derive(Debug)]
pub(super) struct Provider {
    http: Client,
    issuer: String,
    location: KeyLocation,
}

#[derive(Debug)]
enum KeyLocation {
    Keys(Url),
    /// The discovery document, which contains the URL of the keys.
    Discovery(Url),
}

impl KeyLocation {
    /// Returns `true` if the provider is on this machine and requested without TLS.
    fn is_local(&self) -> bool {
        let (Self::Keys(url) | Self::Discovery(url)) = self;
        url.scheme() == "http"
    }
}

#[derive(Deserialize)]
struct DiscoveryDocument {
    issuer: String,
    jwks_uri: String,
}

impl Provider {
    pub(super) fn new(issuer: &str, jwks_url: Option<Url>) -> Result<Self, BadUrl> {
        let location = if let Some(url) = jwks_url {
            KeyLocation::Keys(trusted_url(url.as_str())?)
        } else {
            let document = format!("{}{DISCOVERY}", issuer.trim_end_matches('/'));
            KeyLocation::Discovery(trusted_url(&document)?)
        };
        let mut http = Client::builder()
            .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .timeout(TIMEOUT);
        if location.is_local() {
            // A proxy must not answer for a local provider.
            http = http.no_proxy();
        }
        let http = http.build()?;
        Ok(Self { http, issuer: issuer.to_owned(), location })
    }

    /// Requests the provider's current keys.
    pub(super) async fn keys(&self) -> Result<KeySet, FetchError> {
        let body = match &self.location {
            KeyLocation::Keys(url) => self.get(url.clone()).await?,
            KeyLocation::Discovery(url) => {
                let DiscoveryDocument { issuer, jwks_uri } =
                    serde_json::from_slice(&self.get(url.clone()).await?)?;
                if issuer != self.issuer {
                    return Err(FetchError::Issuer);
                }
                let keys = trusted_url(&jwks_uri)?;
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

/// Parses a URL. Accepts only HTTPS, or HTTP on a loopback address, so that no other host can
/// answer.
fn trusted_url(text: &str) -> Result<Url, BadUrl> {
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
    fn keys_are_requested_only_over_https_or_loopback() {
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
            assert_eq!(trusted_url(url).is_ok(), is_good, "{url}");
        }
    }
}
