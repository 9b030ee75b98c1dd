//! The clouds that offer the Messages API: access to their servers, and their errors.

mod access_token;
mod error;
mod service_account;
mod signature;

use std::sync::Arc;

use reqwest::RequestBuilder;
use reqwest::header::{AUTHORIZATION, HeaderValue};

pub use access_token::TokenSource;
pub use service_account::ServiceAccount;
pub use signature::AwsKeys;

use access_token::AccessTokens;
pub(super) use error::read as read_error;
use signature::Signer;

use crate::domain::platform::Platform;
use crate::model::error::ModelError;
use crate::model::http::BadClient;

/// The cloud that a server belongs to, and the credentials that its requests need besides a key.
#[derive(Debug, Clone, Default)]
pub enum Hosting {
    /// Anthropic's own API, or a server that offers it.
    #[default]
    Own,
    /// Amazon Bedrock: requests are signed with these keys, or have a bearer token if there are none.
    Bedrock(Option<Box<AwsKeys>>),
    /// Google Cloud: requests have an access token from this source. The base URL ends with `models`.
    Vertex(Box<TokenSource>),
}

impl Hosting {
    /// The platform; `None` for Anthropic's own API.
    pub const fn platform(&self) -> Option<Platform> {
        match self {
            Self::Own => None,
            Self::Bedrock(_) => Some(Platform::Bedrock),
            Self::Vertex(_) => Some(Platform::Vertex),
        }
    }
}

/// The way in which each request gets access to its server.
#[derive(Debug, Clone)]
pub(super) enum Access {
    /// By the headers that all requests have.
    Headers,
    /// By a signature of the request.
    Signature(Arc<Signer>),
    /// By a token that expires.
    Token(Arc<AccessTokens>),
}

impl Access {
    /// Prepares the access to a server.
    pub(super) fn new(hosting: &Hosting) -> Result<Self, BadClient> {
        Ok(match hosting {
            Hosting::Own | Hosting::Bedrock(None) => Self::Headers,
            Hosting::Bedrock(Some(keys)) => Self::Signature(Arc::new(Signer::new(keys))),
            Hosting::Vertex(source) => {
                Self::Token(Arc::new(AccessTokens::new(TokenSource::clone(source))?))
            }
        })
    }

    /// Adds what the server requires to a request that is complete otherwise. Each try has its own
    /// signature, because a signature is valid for minutes.
    pub(super) async fn authorize(&self, post: RequestBuilder) -> Result<Authorized, ModelError> {
        Ok(match self {
            Self::Headers => Authorized { post, token: None },
            Self::Signature(signer) => Authorized { post: signer.sign(post)?, token: None },
            Self::Token(tokens) => {
                let token = tokens.current().await?;
                Authorized { post: post.header(AUTHORIZATION, token.clone()), token: Some(token) }
            }
        })
    }

    /// Discards the token of a request that the server refused with this error. Returns true if
    /// another token can be had, with which the request should be sent again.
    pub(super) async fn discard(&self, token: Option<&HeaderValue>, error: &ModelError) -> bool {
        match (self, token, error) {
            (Self::Token(tokens), Some(token), ModelError::Api { status: Some(401), .. }) => {
                tokens.discard(token).await;
                true
            }
            _ => false,
        }
    }
}

/// A request that can be sent, with its token if it has one.
#[derive(Debug)]
pub(super) struct Authorized {
    pub(super) post: RequestBuilder,
    pub(super) token: Option<HeaderValue>,
}
