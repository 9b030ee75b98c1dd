//! The token endpoint and the metadata server of Google Cloud.
//!
//! Source: RFC 7523 (assertions), RFC 6749 (answers and errors), and Google's pages "Using OAuth 2.0 for
//! server to server applications" and "Access VM metadata".

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::{Value, json};

/// The public key of the service account that has access.
const PUBLIC_KEY: &[u8] = include_bytes!("service_account.der");
/// The name of the service account.
const ACCOUNT: &str = "tests@project-1.iam.gserviceaccount.com";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The form before the assertion.
const GRANT: &str = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
/// The longest lifetime of an assertion, in seconds.
const MAX_ASSERTION: i64 = 3600;

/// The access tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    valid: Mutex<Vec<(String, Instant)>>,
    issued: AtomicU64,
    /// In seconds.
    lifetime: AtomicU64,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { valid: Mutex::default(), issued: AtomicU64::new(0), lifetime: AtomicU64::new(3600) }
    }
}

impl Tokens {
    /// The number of tokens that were issued.
    pub(crate) fn issued(&self) -> u64 {
        self.issued.load(Ordering::Relaxed)
    }

    /// Sets the lifetime of later tokens.
    pub(crate) fn set_lifetime(&self, lifetime: Duration) {
        self.lifetime.store(lifetime.as_secs(), Ordering::Relaxed);
    }

    /// Refuses the tokens that were issued.
    pub(crate) fn revoke(&self) {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn accepts(&self, token: &str) -> bool {
        let valid = self.valid.lock().unwrap_or_else(PoisonError::into_inner);
        valid.iter().any(|(other, until)| other == token && Instant::now() < *until)
    }

    fn issue(&self) -> Response {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let token = format!("ya29.planted-token-{number}");
        let seconds = self.lifetime.load(Ordering::Relaxed);
        let until = Instant::now() + Duration::from_secs(seconds);
        self.valid.lock().unwrap_or_else(PoisonError::into_inner).push((token.clone(), until));
        let answer =
            json!({ "access_token": token, "expires_in": seconds, "token_type": "Bearer" });
        Json(answer).into_response()
    }
}

/// Exchanges an assertion for a token: `POST /token`.
pub(crate) fn token(tokens: &Tokens, headers: &HeaderMap, form: &str) -> Response {
    match check_assertion(headers, form) {
        Ok(()) => tokens.issue(),
        Err((error, description)) => {
            let body = json!({ "error": error, "error_description": description });
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        }
    }
}

/// Issues a token of the machine's own service account.
pub(crate) fn metadata_token(tokens: &Tokens, headers: &HeaderMap) -> Response {
    if headers.get("metadata-flavor").is_some_and(|flavor| flavor == "Google") {
        return tokens.issue();
    }
    (StatusCode::FORBIDDEN, "Missing required header: Metadata-Flavor").into_response()
}

fn check_assertion(headers: &HeaderMap, form: &str) -> Result<(), (&'static str, &'static str)> {
    let is_form =
        headers.get("content-type").is_some_and(|kind| kind == "application/x-www-form-urlencoded");
    let assertion = form.strip_prefix(GRANT).filter(|_| is_form);
    let assertion = assertion.ok_or(("unsupported_grant_type", "Invalid grant_type"))?;
    let invalid = |description| ("invalid_grant", description);
    let (signed, signature) =
        assertion.rsplit_once('.').ok_or_else(|| invalid("Malformed assertion"))?;
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, PUBLIC_KEY)
        .verify(signed.as_bytes(), &signature)
        .map_err(|_| invalid("Invalid JWT Signature."))?;
    let [header, claims] = [0, 1].map(|part| {
        let part = signed.split('.').nth(part).unwrap_or_default();
        let json = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
        serde_json::from_slice::<Value>(&json).unwrap_or_default()
    });
    let (header, claims) = (&header, &claims);
    if header["alg"] != "RS256" || header["typ"] != "JWT" {
        return Err(invalid("Invalid JWT: unsupported algorithm"));
    }
    if claims["iss"] != ACCOUNT {
        return Err(invalid("Invalid grant: account not found"));
    }
    if claims["scope"] != SCOPE {
        return Err(("invalid_scope", "Invalid OAuth scope or ID token audience provided."));
    }
    let is_audience = claims["aud"].as_str().is_some_and(|audience| audience.ends_with("/token"));
    let (issued, expires) = (claims["iat"].as_i64(), claims["exp"].as_i64());
    let now = Timestamp::now().as_second();
    let is_current = issued.zip(expires).is_some_and(|(issued, expires)| {
        (issued - now).abs() < 300 && now < expires && expires - issued <= MAX_ASSERTION
    });
    if !is_audience || !is_current {
        return Err(invalid(
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable \
             timeframe. Check your iat and exp values in the JWT claim.",
        ));
    }
    Ok(())
}
