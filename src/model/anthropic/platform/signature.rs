//! Signatures of requests to Amazon Bedrock (Signature Version 4).

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, RequestBuilder};
use secrecy::{ExposeSecret as _, SecretString};

use crate::model::error::ModelError;

/// The service that a signature names, as Anthropic's clients name it for this endpoint.
const SERVICE: &str = "bedrock-mantle";
/// The headers that the signature covers besides `host` and those of the signature. A proxy may change
/// others.
const SIGNED: [&str; 3] = ["anthropic-beta", "anthropic-version", "content-type"];

/// The keys of an identity of AWS.
#[derive(Debug, Clone)]
pub struct AwsKeys {
    /// The region that signatures name.
    pub region: String,
    /// The id of the access key.
    pub access_key_id: SecretString,
    /// The secret of the access key.
    pub secret_access_key: SecretString,
    /// The session token of temporary credentials.
    pub session_token: Option<SecretString>,
}

/// Signs requests.
#[derive(Debug)]
pub(in crate::model::anthropic) struct Signer {
    /// Debug output omits the secrets.
    credentials: Credentials,
    region: String,
}

impl Signer {
    pub(super) fn new(keys: &AwsKeys) -> Self {
        let text = |secret: &SecretString| secret.expose_secret().to_owned();
        let credentials = Credentials::new(
            text(&keys.access_key_id),
            text(&keys.secret_access_key),
            keys.session_token.as_ref().map(text),
            None,
            "twostep",
        );
        Self { credentials, region: keys.region.clone() }
    }

    /// Signs a request at the current time.
    pub(super) fn sign(&self, post: RequestBuilder) -> Result<RequestBuilder, ModelError> {
        let (client, request) = post.build_split();
        let mut request = request.map_err(ModelError::from)?;
        // The client adds it later if it is absent, but the signature must cover it.
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().entry(CONTENT_TYPE).or_insert(json);
        let body = request.body().and_then(Body::as_bytes).unwrap_or_default();
        let url = request.url().as_str();
        let added = self.headers(request.method().as_str(), url, request.headers(), body);
        let added = added.map_err(|error| {
            ModelError::Malformed(format!("the request could not be signed: {error}"))
        })?;
        request.headers_mut().extend(added);
        Ok(RequestBuilder::from_parts(client, request))
    }

    fn headers(
        &self,
        method: &str,
        url: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<HeaderMap, Box<dyn std::error::Error + Send + Sync>> {
        let identity = self.credentials.clone().into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(SERVICE)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()?
            .into();
        let signed = SIGNED.into_iter().filter_map(|name| {
            let value = headers.get(name)?.to_str().ok()?;
            Some((name, value))
        });
        let request = SignableRequest::new(method, url, signed, SignableBody::Bytes(body))?;
        let (instructions, _) = sign(request, &parameters)?.into_parts();
        let mut added = HeaderMap::new();
        for (name, value) in instructions.headers() {
            let mut value = HeaderValue::from_str(value)?;
            value.set_sensitive(true);
            added.insert(HeaderName::from_bytes(name.as_bytes())?, value);
        }
        Ok(added)
    }
}
