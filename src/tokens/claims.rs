//! The claims of a token, read after its signature, issuer, audience and times are verified.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::{InvalidToken, IssuerConfig, LEEWAY, VerifiedClaims};
use crate::domain::api_key::Scope;
use crate::domain::name::is_name;
use crate::domain::principal::SubjectHash;

/// The known values of the scope claim, the larger scope first.
const SCOPES: [(&str, Scope); 2] = [("twostep:write", Scope::Write), ("twostep:read", Scope::Read)];
/// Maximum length of a subject, in characters (OIDC Core, section 2).
const MAX_SUBJECT: usize = 255;

/// Reads the claims.
pub(super) fn read(
    config: &IssuerConfig,
    claims: &Map<String, Value>,
) -> Result<VerifiedClaims, InvalidToken> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    // RFC 7519 requires a single issuer, not a list that contains ours.
    if text("iss") != Some(&config.issuer) {
        return Err(InvalidToken::Issuer);
    }
    let subject = text("sub").filter(|text| is_subject(text)).ok_or(InvalidToken::Subject)?;
    let tenant =
        text(&config.tenant_claim).filter(|name| is_name(name)).ok_or(InvalidToken::Tenant)?;
    let ends_at = claims.get("exp").and_then(Value::as_f64).ok_or(InvalidToken::Claims)?;
    Ok(VerifiedClaims {
        subject: subject.to_owned(),
        holder: SubjectHash::of(&config.issuer, subject),
        tenant: tenant.to_owned(),
        scope: scope(claims.get(&config.scope_claim)),
        until: until(ends_at),
    })
}

fn is_subject(text: &str) -> bool {
    (1..=MAX_SUBJECT).contains(&text.chars().count()) && !text.contains(char::is_control)
}

/// Returns the largest known scope of the claim, which is a text separated by spaces (RFC 8693) or
/// a list.
fn scope(claim: Option<&Value>) -> Option<Scope> {
    let words: Vec<&str> = match claim? {
        Value::String(text) => text.split_ascii_whitespace().collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    let named = SCOPES.into_iter().find(|(word, _)| words.contains(word));
    named.map(|(_, scope)| scope)
}

/// Returns the time until which a token with this `exp` claim is accepted, including the leeway.
fn until(seconds: f64) -> Timestamp {
    let leeway = SignedDuration::try_from(LEEWAY).unwrap_or_default();
    let end = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX);
    Timestamp::from_duration(end.saturating_add(leeway)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::KeyRefresh;
    use serde_json::json;

    fn config() -> IssuerConfig {
        IssuerConfig {
            issuer: "https://id.example".to_owned(),
            audience: "twostep".to_owned(),
            jwks_url: None,
            tenant_claim: "org".to_owned(),
            scope_claim: "scope".to_owned(),
            key_refresh: KeyRefresh::default(),
        }
    }

    /// Reads the usual claims with these changes.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the changes in place")]
    fn with(changes: Value) -> Result<VerifiedClaims, InvalidToken> {
        let mut claims = json!({
            "iss": "https://id.example", "sub": "ann", "org": "acme", "exp": 1_800_000_000,
            "scope": "twostep:read",
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        read(&config(), claims.as_object().unwrap())
    }

    fn usual() -> VerifiedClaims {
        VerifiedClaims {
            subject: "ann".to_owned(),
            holder: SubjectHash::of("https://id.example", "ann"),
            tenant: "acme".to_owned(),
            scope: Some(Scope::Read),
            until: Timestamp::from_second(1_800_000_030).unwrap(),
        }
    }

    #[test]
    fn all_claims_are_read() {
        assert_eq!(with(json!({})), Ok(usual()));
    }

    #[test]
    fn the_largest_known_scope_applies() {
        let (read, write) = (Some(Scope::Read), Some(Scope::Write));
        for (claim, scope) in [
            (json!("openid twostep:read email"), read),
            (json!("twostep:read twostep:write"), write),
            (json!(["twostep:write"]), write),
            (json!(["twostep:read", 7, "twostep:writer"]), read),
            (json!(""), None),
            (json!("read write twostep"), None),
            (json!("TWOSTEP:WRITE"), None),
            (json!(["twostep:read twostep:write"]), None),
            (json!({ "twostep:write": true }), None),
            (json!(null), None),
        ] {
            assert_eq!(with(json!({ "scope": claim })), Ok(VerifiedClaims { scope, ..usual() }));
        }
    }

    #[test]
    fn an_invalid_subject_or_tenant_is_refused() {
        for bad in [json!(null), json!(""), json!(7), json!(["a"]), json!({}), json!("a\nb")] {
            assert_eq!(with(json!({ "org": bad })), Err(InvalidToken::Tenant));
            assert_eq!(with(json!({ "sub": bad })), Err(InvalidToken::Subject));
        }
        assert_eq!(with(json!({ "org": "a".repeat(101) })), Err(InvalidToken::Tenant));
        assert_eq!(with(json!({ "sub": "a".repeat(256) })), Err(InvalidToken::Subject));
        assert_eq!(with(json!({ "iss": ["https://id.example"] })), Err(InvalidToken::Issuer));
    }

    #[test]
    fn fractional_and_unbounded_expiry_times_are_read() {
        let until = |exp: Value| with(json!({ "exp": exp })).unwrap().until;
        assert_eq!(until(json!(0.5)), "1970-01-01T00:00:30.5Z".parse().unwrap());
        assert_eq!(until(json!(1e18)), Timestamp::MAX);
    }
}
