//! Keys that sign tokens.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use serde_json::{Value, json};

/// ring cannot generate RSA keys.
const RSA: &str = include_str!("test-only-rsa.pem");

/// A private key with an id.
pub(crate) struct Signer {
    pub(crate) id: String,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(&'static str, EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    /// The RSA key, which is always the same.
    pub(crate) fn rsa(id: &str) -> Self {
        let body = RSA.lines().skip_while(|line| !line.starts_with("-----BEGIN")).skip(1);
        let body: String = body.take_while(|line| !line.starts_with("-----END")).collect();
        let pair = RsaKeyPair::from_pkcs8(&STANDARD.decode(body).unwrap()).unwrap();
        Self { id: id.to_owned(), pair: Pair::Rsa(pair) }
    }

    pub(crate) fn p256(id: &str) -> Self {
        Self::ec(id, "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    pub(crate) fn p384(id: &str) -> Self {
        Self::ec(id, "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING)
    }

    fn ec(id: &str, curve: &'static str, algorithm: &'static EcdsaSigningAlgorithm) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap();
        Self { id: id.to_owned(), pair: Pair::Ec(curve, pair) }
    }

    pub(crate) fn ed25519(id: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
        Self { id: id.to_owned(), pair: Pair::Ed(pair) }
    }

    /// The public key as a JSON Web Key.
    pub(crate) fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let PublicKeyComponents { n, e } =
                    PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kid": self.id, "kty": "RSA", "n": encoded(n), "e": encoded(e) })
            }
            Pair::Ec(curve, pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(pair_size(curve));
                let (x, y) = (encoded(x), encoded(y));
                json!({ "kid": self.id, "kty": "EC", "crv": curve, "x": x, "y": y })
            }
            Pair::Ed(pair) => {
                let x = encoded(pair.public_key());
                json!({ "kid": self.id, "kty": "OKP", "crv": "Ed25519", "x": x })
            }
        }
    }

    /// A token with these claims, signed by this algorithm.
    pub(crate) fn sign(&self, algorithm: &str, claims: &Value) -> String {
        let header = json!({ "typ": "JWT", "alg": algorithm, "kid": self.id });
        self.sign_under(&header, algorithm, claims)
    }

    /// A token with this header, which need not match the algorithm.
    pub(crate) fn sign_under(&self, header: &Value, algorithm: &str, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = encoded(self.signature(algorithm, message.as_bytes()));
        format!("{message}.{signature}")
    }

    fn signature(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding(algorithm), &random, message, &mut signature).unwrap();
                signature
            }
            Pair::Ec(_, pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

fn pair_size(curve: &str) -> usize {
    if curve == "P-256" { 32 } else { 48 }
}

fn padding(algorithm: &str) -> &'static dyn RsaEncoding {
    match algorithm {
        "RS256" => &RSA_PKCS1_SHA256,
        "RS384" => &RSA_PKCS1_SHA384,
        "RS512" => &RSA_PKCS1_SHA512,
        "PS256" => &RSA_PSS_SHA256,
        "PS384" => &RSA_PSS_SHA384,
        "PS512" => &RSA_PSS_SHA512,
        other => panic!("{other} is not an RSA algorithm"),
    }
}

/// The header and the claims of a token, without a signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()))
}

/// A token that is signed with a shared secret.
pub(crate) fn signed_with_secret(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = unsigned(header, claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", encoded(tag))
}
