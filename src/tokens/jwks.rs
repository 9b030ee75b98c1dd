//! The key set of a provider (JWKS, RFC 7517), limited to keys that verify signatures.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::InvalidToken;

/// Maximum number of keys in a set.
const MAX_KEYS: usize = 100;

/// The cause of an unusable key set.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadSet {
    /// The set is not JSON of the expected form.
    #[error("it is not a key set: {0}")]
    Form(#[from] serde_json::Error),
    /// The set has too many keys.
    #[error("it has {0} keys, more than {MAX_KEYS}")]
    TooMany(usize),
}

/// The keys of a provider.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    id: String,
    /// The algorithms for which the key may be used; never empty.
    algorithms: Vec<Algorithm>,
    public: DecodingKey,
}

#[derive(Deserialize)]
struct KeySetDocument {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses a key set. Omits keys of other types and for other uses, which providers also
    /// publish.
    pub(super) fn read(body: &[u8]) -> Result<Self, BadSet> {
        let KeySetDocument { keys } = serde_json::from_slice(body)?;
        if keys.len() > MAX_KEYS {
            return Err(BadSet::TooMany(keys.len()));
        }
        Ok(Self { keys: keys.into_iter().filter_map(key).collect() })
    }

    /// Returns the number of keys.
    pub(super) const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the key with this ID, if it may be used for this algorithm.
    pub(super) fn find(&self, id: &str, algorithm: Algorithm) -> Result<DecodingKey, InvalidToken> {
        let mut named = self.keys.iter().filter(|key| key.id == id).peekable();
        named.peek().ok_or(InvalidToken::UnknownKey)?;
        let fitting = named.find(|key| key.algorithms.contains(&algorithm));
        Ok(fitting.ok_or(InvalidToken::Algorithm)?.public.clone())
    }
}

fn key(value: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let algorithms = algorithms(&jwk)?;
    let public = DecodingKey::from_jwk(&jwk).ok()?;
    Some(Key { id: jwk.common.key_id?, algorithms, public })
}

/// Returns the algorithms for which a key may be used: those of its type, restricted by its own
/// `use`, `key_ops` and `alg` members.
fn algorithms(jwk: &Jwk) -> Option<Vec<Algorithm>> {
    let common = &jwk.common;
    let is_for_signing = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
    let operations = common.key_operations.as_ref();
    if !is_for_signing || operations.is_some_and(|all| !all.contains(&KeyOperations::Verify)) {
        return None;
    }
    let mut algorithms = of_kind(&jwk.algorithm).to_vec();
    if let Some(only) = common.key_algorithm {
        let only = Algorithm::try_from(only).ok()?;
        algorithms.retain(|algorithm| *algorithm == only);
    }
    (!algorithms.is_empty()).then_some(algorithms)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other operations are ignored, including future ones"
)]
fn of_kind(parameters: &AlgorithmParameters) -> &'static [Algorithm] {
    match parameters {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            &[Algorithm::ES256]
        }
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => {
            &[Algorithm::ES384]
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            &[Algorithm::EdDSA]
        }
        // Symmetric keys are never published.
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::AlgorithmFamily;
    use serde_json::json;

    const RSA: [Algorithm; 6] = [
        Algorithm::RS256,
        Algorithm::RS384,
        Algorithm::RS512,
        Algorithm::PS256,
        Algorithm::PS384,
        Algorithm::PS512,
    ];

    /// Returns the algorithms of a key with these members.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the key in place")]
    fn of(more: Value) -> Option<Vec<Algorithm>> {
        let mut jwk = json!({ "kid": "1" });
        for (name, value) in more.as_object().unwrap() {
            jwk[name] = value.clone();
        }
        key(jwk).map(|key| key.algorithms)
    }

    #[test]
    fn a_key_has_the_algorithms_of_its_type_within_its_own_restrictions() {
        let rsa = |more: Value| {
            let mut jwk = json!({ "kty": "RSA", "n": "sQ", "e": "AQAB" });
            for (name, value) in more.as_object().unwrap() {
                jwk[name] = value.clone();
            }
            of(jwk)
        };
        for (more, expected) in [
            (json!({}), Some(RSA.to_vec())),
            (json!({ "use": "sig", "x5c": ["MII"], "other": {} }), Some(RSA.to_vec())),
            (json!({ "key_ops": ["verify"] }), Some(RSA.to_vec())),
            (json!({ "alg": "PS384" }), Some(vec![Algorithm::PS384])),
            (json!({ "use": "enc" }), None),
            (json!({ "key_ops": ["encrypt"] }), None),
            (json!({ "alg": "RSA-OAEP" }), None),
            (json!({ "alg": "HS256" }), None),
            (json!({ "alg": "ES256" }), None),
            (json!({ "kid": null }), None),
            (json!({ "n": "no base64!" }), None),
        ] {
            assert_eq!(rsa(more.clone()), expected, "{more}");
        }
    }

    #[test]
    fn each_curve_has_one_algorithm_and_symmetric_keys_have_none() {
        for (jwk, expected) in [
            (json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA" }), Some(Algorithm::ES256)),
            (json!({ "kty": "EC", "crv": "P-384", "x": "AA", "y": "AA" }), Some(Algorithm::ES384)),
            (json!({ "kty": "EC", "crv": "P-521", "x": "AA", "y": "AA" }), None),
            (json!({ "kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA" }), None),
            (json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA" }), Some(Algorithm::EdDSA)),
            (json!({ "kty": "OKP", "crv": "X25519", "x": "AA" }), None),
            (json!({ "kty": "OKP", "crv": "P-256", "x": "AA" }), None),
            (json!({ "kty": "oct", "k": "AA" }), None),
            (json!({ "kty": "AKP", "pub": "AA" }), None),
        ] {
            assert_eq!(of(jwk.clone()), expected.map(|one| vec![one]), "{jwk}");
        }
    }

    #[test]
    fn unusable_keys_are_omitted_from_a_set() {
        let set = json!({ "keys": [
            7, { "kid": "2" }, { "kty": "oct", "kid": "3", "k": "AA" },
            { "kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "1" },
            { "kty": "RSA", "n": "sQ", "e": "AQAB", "kid": "1" },
        ] });
        let set = KeySet::read(set.to_string().as_bytes()).unwrap();
        assert_eq!(set.len(), 2);
        let family = |id, algorithm| set.find(id, algorithm).map(|key| key.family());
        assert_eq!(family("1", Algorithm::EdDSA), Ok(AlgorithmFamily::Ed));
        assert_eq!(family("1", Algorithm::RS256), Ok(AlgorithmFamily::Rsa));
        assert_eq!(family("1", Algorithm::ES256), Err(InvalidToken::Algorithm));
        assert_eq!(family("3", Algorithm::HS256), Err(InvalidToken::UnknownKey));
    }

    #[test]
    fn a_set_with_too_many_keys_is_refused() {
        let read = |count| {
            let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "1" });
            let set = json!({ "keys": vec![key; count] });
            KeySet::read(set.to_string().as_bytes()).map(|set| set.len()).ok()
        };
        assert_eq!((read(MAX_KEYS), read(MAX_KEYS + 1)), (Some(100), None));
        assert!(KeySet::read(b"[]").is_err());
    }
}
