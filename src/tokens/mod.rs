//! Verification of an identity provider's tokens (JWT, RFC 7519) with the keys that it publishes.

mod claims;
mod crypto;
mod fetch;
mod jwks;
mod key_cache;
mod refused;

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
use key_cache::KeyCache;
pub use refused::Refused;

/// Maximum size of a token, in bytes. A longer one is refused without parsing.
const MAX_TOKEN: usize = 8 * 1024;
/// Tolerance for clock differences between the provider and the service.
const LEEWAY: Duration = Duration::from_secs(30);

/// The rules for valid tokens.
#[derive(Debug, Clone)]
pub struct Rules {
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
    pub pace: Pace,
}

/// The times of the key cache.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Interval between refreshes. A revoked key is accepted for at most this time.
    pub every: Duration,
    /// Minimum time between refreshes that unknown keys trigger, and the delay of the retry after
    /// a failure.
    pub pause: Duration,
    /// Time for which the keys remain valid while the provider is unavailable.
    pub kept_for: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            every: Duration::from_mins(10),
            pause: Duration::from_secs(30),
            kept_for: Duration::from_hours(24),
        }
    }
}

/// The verified content of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
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
    rules: Rules,
    keys: KeyCache,
}

impl Issuer {
    /// Creates a provider. Its keys are unknown until [`Issuer::keep_current`] runs.
    pub fn new(rules: Rules) -> Result<Self, BadUrl> {
        crypto::install();
        let provider = Provider::new(&rules.issuer, rules.jwks_url.clone())?;
        let keys = KeyCache::new(provider, rules.pace);
        Ok(Self { rules, keys })
    }

    /// Refreshes the keys until `stop` is cancelled.
    pub async fn keep_current(&self, stop: CancellationToken) {
        stop.run_until_cancelled(self.keys.run()).await;
    }

    /// Verifies a token. An unknown key triggers a refresh of the keys, within the rate limit.
    pub async fn verify(&self, token: &str) -> Result<Statement, Refused> {
        if token.len() > MAX_TOKEN {
            return Err(Refused::TooLong);
        }
        let header = decode_header(token)?;
        if header.alg.family() == AlgorithmFamily::Hmac {
            // Symmetric keys are never published.
            return Err(Refused::Algorithm);
        }
        if header.crit.is_some() {
            return Err(Refused::Critical);
        }
        let id = header.kid.ok_or(Refused::NoKeyId)?;
        let known = self.keys.current();
        let key = match known.find(&id, header.alg) {
            Err(Refused::UnknownKey) => self.keys.refreshed().await.find(&id, header.alg)?,
            found => found?,
        };
        let claims: Map<String, Value> = decode(token, &key, &self.validation(header.alg))?.claims;
        let statement = claims::read(&self.rules, &claims)?;
        // The library compares whole seconds. A token whose expiry closed a stream must not open
        // the next one.
        if statement.until <= Timestamp::now() { Err(Refused::Expired) } else { Ok(statement) }
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.rules.issuer]);
        validation.set_audience(&[&self.rules.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation
    }
}
