//! Verification of an identity provider's tokens (JWT, RFC 7519) with the keys that it publishes.

mod claims;
mod crypto;
mod fetch;
mod invalid_token;
mod jwks;
mod key_cache;

use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, AlgorithmFamily, Validation, decode, decode_header};
use reqwest::Url;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::domain::api_key::Scope;
use crate::domain::principal::SubjectHash;
pub use fetch::BadUrl;
use fetch::Provider;
pub use invalid_token::InvalidToken;
use key_cache::KeyCache;

/// Maximum size of a token, in bytes. A longer one is refused without parsing.
const MAX_TOKEN: usize = 8 * 1024;
/// Tolerance for clock differences between the provider and the service.
const LEEWAY: Duration = Duration::from_secs(30);

/// The configuration of an identity provider: the rules for valid tokens.
#[derive(Debug, Clone)]
pub struct IssuerConfig {
    /// The exact `iss` claim of tokens.
    pub issuer: String,
    /// The audience that the `aud` claim must contain.
    pub audience: String,
    /// The URL of the provider's keys. If absent, the discovery document contains it.
    pub jwks_url: Option<Url>,
    /// The name of the claim with the tenant.
    pub tenant_claim: String,
    /// The name of the claim with the scopes.
    pub scope_claim: String,
    /// The times of the key cache.
    pub key_refresh: KeyRefresh,
}

/// The times of the key cache.
#[derive(Debug, Clone, Copy)]
pub struct KeyRefresh {
    /// Interval between refreshes. A revoked key is accepted for at most this time.
    pub interval: Duration,
    /// Minimum time between refreshes that unknown keys trigger, and the delay of the retry after
    /// a failure.
    pub min_interval: Duration,
    /// Time for which the keys remain valid while the provider is unavailable.
    pub max_age: Duration,
}

impl Default for KeyRefresh {
    fn default() -> Self {
        Self {
            interval: Duration::from_mins(10),
            min_interval: Duration::from_secs(30),
            max_age: Duration::from_hours(24),
        }
    }
}

/// The verified content of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedClaims {
    /// The subject: 1 to 255 characters without control characters.
    pub subject: String,
    /// The hash of issuer and subject, for counting.
    pub holder: SubjectHash,
    /// The name of the tenant.
    pub tenant: String,
    /// The scope, if the token has a known one.
    pub scope: Option<Scope>,
    /// The time until which the token is accepted.
    pub until: Timestamp,
}

/// An identity provider whose tokens are accepted.
#[derive(Debug)]
pub struct Issuer {
    config: IssuerConfig,
    keys: KeyCache,
}

impl Issuer {
    /// Creates a provider. Its keys are unknown until [`Issuer::refresh_keys`] runs.
    pub fn new(config: IssuerConfig) -> Result<Self, BadUrl> {
        crypto::install();
        let provider = Provider::new(&config.issuer, config.jwks_url.clone())?;
        let keys = KeyCache::new(provider, config.key_refresh);
        Ok(Self { config, keys })
    }

    /// Refreshes the keys until `stop` is cancelled.
    pub async fn refresh_keys(&self, stop: CancellationToken) {
        stop.run_until_cancelled(self.keys.run()).await;
    }

    /// Verifies a token. An unknown key triggers a refresh of the keys, within the rate limit.
    pub async fn verify(&self, token: &str) -> Result<VerifiedClaims, InvalidToken> {
        if token.len() > MAX_TOKEN {
            return Err(InvalidToken::TooLong);
        }
        let header = decode_header(token)?;
        if header.alg.family() == AlgorithmFamily::Hmac {
            // Symmetric keys are never published.
            return Err(InvalidToken::Algorithm);
        }
        if header.crit.is_some() {
            return Err(InvalidToken::Critical);
        }
        let id = header.kid.ok_or(InvalidToken::NoKeyId)?;
        let known = self.keys.current();
        let key = match known.find(&id, header.alg) {
            Err(InvalidToken::UnknownKey) => self.keys.refreshed().await.find(&id, header.alg)?,
            found => found?,
        };
        let claims: Map<String, Value> = decode(token, &key, &self.validation(header.alg))?.claims;
        let verified = claims::read(&self.config, &claims)?;
        // The library compares whole seconds. A token whose expiry closed a stream must not open
        // the next one.
        if verified.until <= Timestamp::now() { Err(InvalidToken::Expired) } else { Ok(verified) }
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.config.issuer]);
        validation.set_audience(&[&self.config.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation
    }
}
