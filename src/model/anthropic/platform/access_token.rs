//! Access tokens of Google Cloud, from a service account or the metadata server.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use secrecy::SecretString;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::service_account::ServiceAccount;
use crate::model::error::{ErrorKind, ModelError};
use crate::model::http::{BadClient, secret_header, small_body};
use crate::model::reply_head::ReplyHead;

/// The timeout of a request for a token, which a run waits for.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time before its end from which a token is renewed; shorter for tokens with a short life.
const RENEW_BEFORE: Duration = Duration::from_mins(5);
/// The lifetime of a token whose answer does not say it, in seconds.
const DEFAULT_LIFETIME: u64 = 600;
/// The longest lifetime that is believed, in seconds.
const MAX_LIFETIME: u64 = 86_400;
/// The pause after a failed renewal of a token that is still valid.
const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// The source of access tokens.
#[derive(Debug, Clone)]
pub enum TokenSource {
    /// The key of a service account.
    ServiceAccount(Box<ServiceAccount>),
    /// The metadata server of the machine, at this address: tokens of the machine's own service account.
    MetadataServer(Url),
}

/// The access tokens of one provider.
#[derive(Debug)]
pub(in crate::model::anthropic) struct AccessTokens {
    source: TokenSource,
    http: Client,
    /// Locked while a token is requested, so that there is one request at a time.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    token: Option<Token>,
    /// The last failure to get a token, and its time.
    failure: Option<(Instant, Failure)>,
}

/// A failed request for a token, for everybody who waited for it.
#[derive(Debug, Clone)]
struct Failure {
    status: Option<u16>,
    kind: ErrorKind,
    message: String,
}

impl From<&ModelError> for Failure {
    fn from(error: &ModelError) -> Self {
        if let ModelError::Api { status, kind, message, .. } = error {
            Self { status: *status, kind: kind.clone(), message: message.clone() }
        } else {
            Self { status: None, kind: ErrorKind::Api, message: error.to_string() }
        }
    }
}

impl From<Failure> for ModelError {
    fn from(Failure { status, kind, message }: Failure) -> Self {
        Self::Api { status, kind, message, paths: Box::default(), head: ReplyHead::default() }
    }
}

#[derive(Debug)]
struct Token {
    header: HeaderValue,
    renew_at: Instant,
    expires_at: Instant,
}

/// The answer of a token endpoint (RFC 6749, 5.1).
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    expires_in: Option<u64>,
}

/// The refusal of a token endpoint (RFC 6749, 5.2).
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

impl AccessTokens {
    pub(super) fn new(source: TokenSource) -> Result<Self, BadClient> {
        let http = Client::builder()
            .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
            .timeout(TIMEOUT)
            .redirect(Policy::none());
        // The address of the metadata server exists on the machine only.
        let http = match source {
            TokenSource::MetadataServer(_) => http.no_proxy(),
            TokenSource::ServiceAccount(_) => http,
        };
        Ok(Self { source, http: http.build()?, state: Mutex::default() })
    }

    /// Returns the `Authorization` header with a token that is valid, and requests one if there is none.
    pub(super) async fn current(&self) -> Result<HeaderValue, ModelError> {
        let asked_at = Instant::now();
        let mut state = self.state.lock().await;
        let State { token, failure } = &mut *state;
        let now = Instant::now();
        if let Some(token) = token.as_ref().filter(|token| now < token.renew_at) {
            return Ok(token.header.clone());
        }
        // One that waited for a request which failed does not repeat it at once.
        if let Some((_, failure)) = failure.as_ref().filter(|(at, _)| asked_at < *at) {
            return Err(failure.clone().into());
        }
        match (self.request().await, token.as_mut()) {
            (Ok(new), _) => Ok(token.insert(new).header.clone()),
            (Err(error), Some(old)) if now < old.expires_at => {
                tracing::warn!(%error, "access token not renewed; the old one is still valid");
                old.renew_at = old.expires_at.min(Instant::now() + RENEW_AGAIN_AFTER);
                Ok(old.header.clone())
            }
            (Err(error), _) => {
                *failure = Some((Instant::now(), (&error).into()));
                Err(error)
            }
        }
    }

    /// Discards a token that the server has refused, unless another one has replaced it already.
    pub(super) async fn discard(&self, refused: &HeaderValue) {
        self.state.lock().await.token.take_if(|token| token.header == refused);
    }

    async fn request(&self) -> Result<Token, ModelError> {
        let requested_at = Instant::now();
        let response = self.post()?.send().await.map_err(ModelError::from)?;
        let status = response.status();
        let body = small_body(response).await;
        if !status.is_success() {
            let refusal = serde_json::from_slice(&body).unwrap_or_default();
            return Err(self.refused(status.as_u16(), &refusal));
        }
        let unreadable = || {
            let from = self.name();
            ModelError::Malformed(format!("the answer of {from} has no access token"))
        };
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| unreadable())?;
        let header = secret_header("Bearer ", &SecretString::from(answer.access_token))
            .map_err(|_| unreadable())?;
        let lifetime = answer.expires_in.unwrap_or(DEFAULT_LIFETIME).min(MAX_LIFETIME);
        let lifetime = Duration::from_secs(lifetime);
        let renew_at = requested_at + lifetime.saturating_sub(RENEW_BEFORE.min(lifetime / 2));
        Ok(Token { header, renew_at, expires_at: requested_at + lifetime })
    }

    fn post(&self) -> Result<RequestBuilder, ModelError> {
        match &self.source {
            TokenSource::ServiceAccount(account) => {
                let assertion = account.assertion();
                let assertion =
                    assertion.map_err(|error| ModelError::Malformed(error.to_string()))?;
                let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
                let form = format!("grant_type={grant}&assertion={assertion}");
                let post = self.http.post(account.token_uri().clone());
                Ok(post.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form))
            }
            TokenSource::MetadataServer(url) => {
                Ok(self.http.get(url.clone()).header("metadata-flavor", "Google"))
            }
        }
    }

    /// The endpoint in messages.
    const fn name(&self) -> &'static str {
        match self.source {
            TokenSource::ServiceAccount(_) => "the token endpoint",
            TokenSource::MetadataServer(_) => "the metadata server",
        }
    }

    fn refused(&self, status: u16, refusal: &Refusal) -> ModelError {
        let Refusal { error, error_description } = refusal;
        let of_status = ErrorKind::of_status(status);
        let is_passing =
            matches!(of_status, ErrorKind::RateLimit | ErrorKind::Api | ErrorKind::Timeout);
        let kind = if is_passing { of_status } else { ErrorKind::Authentication };
        let reason = [error.as_str(), error_description].map(str::trim);
        let reason: Vec<&str> = reason.into_iter().filter(|part| !part.is_empty()).collect();
        let message = format!(
            "{} returned no access token (status {status}): {}",
            self.name(),
            if reason.is_empty() { "no reason".to_owned() } else { reason.join(": ") }
        );
        let (status, paths, head) = (Some(status), Box::default(), ReplyHead::default());
        ModelError::Api { status, kind, message, paths, head }
    }
}
