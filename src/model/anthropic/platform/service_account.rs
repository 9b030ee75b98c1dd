//! The key file of a service account of Google Cloud, and the assertions that it signs (RFC 7523).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::json;

/// The permission that tokens have; the roles of the account limit it.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The lifetime of an assertion, the longest that the token endpoint accepts.
const LIFETIME: Duration = Duration::from_hours(1);

/// A service account with its key.
#[derive(Debug, Clone)]
pub struct ServiceAccount {
    client_email: String,
    private_key_id: Option<String>,
    private_key: SecretString,
    /// The address of the token endpoint.
    token_uri: Url,
    /// The project of the account.
    pub project_id: Option<String>,
}

/// The members of a key file.
#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key_id: Option<String>,
    private_key: String,
    token_uri: String,
    project_id: Option<String>,
}

/// A reason why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadServiceAccount {
    /// The file is not the key of a service account.
    #[error(
        "it is not the JSON key of a service account, with client_email, private_key and token_uri: {0}"
    )]
    Json(#[from] serde_json::Error),
    /// The address of the token endpoint cannot be read.
    #[error("its token_uri is not a URL")]
    TokenUri,
    /// The private key cannot be read.
    #[error("its private_key is not an RSA key in PEM format (PKCS #8)")]
    Key,
}

impl ServiceAccount {
    /// Reads a key file and checks its key.
    pub fn parse(json: &str) -> Result<Self, BadServiceAccount> {
        let KeyFile { client_email, private_key_id, private_key, token_uri, project_id } =
            serde_json::from_str(json)?;
        let token_uri = token_uri.parse().map_err(|_| BadServiceAccount::TokenUri)?;
        let private_key = private_key.into();
        let account = Self { client_email, private_key_id, private_key, token_uri, project_id };
        account.key()?;
        Ok(account)
    }

    /// The private key, which must not appear in the log.
    pub const fn secret(&self) -> &SecretString {
        &self.private_key
    }

    /// The address of the token endpoint.
    pub(super) const fn token_uri(&self) -> &Url {
        &self.token_uri
    }

    fn key(&self) -> Result<RsaKeyPair, BadServiceAccount> {
        let pem = self.private_key.expose_secret().as_bytes();
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| BadServiceAccount::Key)?;
        RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| BadServiceAccount::Key)
    }

    /// Returns a signed assertion, which the token endpoint exchanges for an access token.
    pub(super) fn assertion(&self) -> Result<String, BadServiceAccount> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": self.private_key_id });
        let claims = json!({
            "iss": self.client_email,
            "scope": SCOPE,
            "aud": self.token_uri.as_str(),
            "iat": now.as_secs(),
            "exp": (now + LIFETIME).as_secs(),
        });
        let [header, claims] =
            [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let key = self.key()?;
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .map_err(|_| BadServiceAccount::Key)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_a_key_is_refused_by_its_member() {
        let refusal = |json: &str| ServiceAccount::parse(json).unwrap_err().to_string();
        assert!(refusal(r#"{"type":"authorized_user"}"#).contains("missing field `client_email`"));
        let key = r#"{"client_email":"a@b","private_key":"x","token_uri":"https://t.example"}"#;
        assert!(refusal(key).starts_with("its private_key is not an RSA key"), "{}", refusal(key));
    }
}
