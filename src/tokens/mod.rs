//! Tokens of an identity provider (JWT, RFC 7519): whom it says that a request comes from, checked
//! against the keys that it publishes.

mod claims;
mod crypto;
mod fetch;
mod jwks;
mod keeper;
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
use keeper::Keeper;
pub use refused::Refused;

/// The longest token, in bytes. Nobody works on a longer one.
const MAX_TOKEN: usize = 8 * 1024;
/// How far the provider's clock and ours may be apart.
const LEEWAY: Duration = Duration::from_secs(30);

/// What makes a token good.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The `iss` of tokens, to the letter.
    pub issuer: String,
    /// What tokens must be meant for: their `aud`, or one of them.
    pub audience: String,
    /// Where the provider's keys are; none: where its discovery document says.
    pub jwks_url: Option<Url>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that says what the caller may do.
    pub scope_claim: String,
    /// How the provider's keys are kept.
    pub pace: Pace,
}

/// How the provider's keys are kept.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The time between two looks at them: as long is one good that the provider takes away.
    pub every: Duration,
    /// The time after which somebody who has a token of an unknown key may have them looked at
    /// again, and after which they are looked at again if that failed.
    pub pause: Duration,
    /// How long they are good while the provider does not tell them.
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

/// What a good token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Whom it is about, for people: 1 to 255 characters, none of them a control character.
    pub subject: String,
    /// The same for counting.
    pub holder: SubjectHash,
    /// The name of their tenant.
    pub tenant: String,
    /// What they may do, if anything.
    pub scope: Option<Scope>,
    /// When it is no longer good.
    pub until: Timestamp,
}

/// An identity provider whose tokens are good.
#[derive(Debug)]
pub struct Issuer {
    rules: Rules,
    keys: Keeper,
}

impl Issuer {
    /// A provider, whose keys are not known before [`Issuer::keep_current`] runs.
    pub fn new(rules: Rules) -> Result<Self, BadUrl> {
        crypto::install();
        let provider = Provider::new(&rules.issuer, rules.jwks_url.clone())?;
        let keys = Keeper::new(provider, rules.pace);
        Ok(Self { rules, keys })
    }

    /// Keeps the keys in step with those that the provider publishes, until it is told to stop.
    pub async fn keep_current(&self, stop: CancellationToken) {
        stop.run_until_cancelled(self.keys.keep()).await;
    }

    /// What a token says, if it is good. A key that is not known is asked for, within bounds.
    pub async fn verify(&self, token: &str) -> Result<Statement, Refused> {
        if token.len() > MAX_TOKEN {
            return Err(Refused::TooLong);
        }
        let header = decode_header(token)?;
        if header.alg.family() == AlgorithmFamily::Hmac {
            // A secret that both sides share is no key that anybody publishes.
            return Err(Refused::Algorithm);
        }
        if header.crit.is_some() {
            return Err(Refused::Critical);
        }
        let id = header.kid.ok_or(Refused::NoKeyId)?;
        let known = self.keys.current();
        let key = match known.find(&id, header.alg) {
            Err(Refused::UnknownKey) => self.keys.renewed().await.find(&id, header.alg)?,
            found => found?,
        };
        let claims: Map<String, Value> = decode(token, &key, &self.validation(header.alg))?.claims;
        let said = claims::read(&self.rules, &claims)?;
        // The library counts whole seconds. What ends a stream must not open the next one.
        if said.until <= Timestamp::now() { Err(Refused::Expired) } else { Ok(said) }
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
