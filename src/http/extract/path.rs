//! Extractors of the ids in the path of a request.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use serde::Deserialize;

use crate::domain::ids::{BrowserTokenId, DeliveryId, FileId, RunId, SessionId, WebhookId};
use crate::http::error::ApiError;
use crate::service::Error;

/// The session id of a path. A malformed id is the id of a session that does not exist.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct SessionPath(pub(in crate::http) SessionId);

/// The session id and the run id of a path.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct RunPath(pub(in crate::http) SessionId, pub(in crate::http) RunId);

/// The session id, the run id and the request number of a path.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct RequestPath(
    pub(in crate::http) SessionId,
    pub(in crate::http) RunId,
    pub(in crate::http) i32,
);

/// The session id and the tool call id of a path.
#[derive(Debug, Clone)]
pub(in crate::http) struct CallPath(pub(in crate::http) SessionId, pub(in crate::http) String);

/// The session id and the message id of a path.
#[derive(Debug, Clone)]
pub(in crate::http) struct MessagePath(pub(in crate::http) SessionId, pub(in crate::http) String);

/// The file id of a path, and the session id if the path has one. A malformed id is the id of a file
/// that does not exist.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct FilePath(
    pub(in crate::http) Option<SessionId>,
    pub(in crate::http) FileId,
);

/// The webhook id of a path.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct WebhookPath(pub(in crate::http) WebhookId);

/// The webhook id and the delivery id of a path.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct DeliveryPath(
    pub(in crate::http) WebhookId,
    pub(in crate::http) DeliveryId,
);

/// The id of a browser token of a path. A malformed id is the id of a token that does not exist.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct BrowserTokenPath(pub(in crate::http) BrowserTokenId);

/// The agent name of a path, unparsed.
#[derive(Debug, Clone)]
pub(in crate::http) struct AgentPath(pub(in crate::http) String);

/// The id of an agent or an environment in the path of another protocol, unparsed.
#[derive(Debug, Clone)]
pub(in crate::http) struct SdkPath(pub(in crate::http) String);

impl<S: Send + Sync> FromRequestParts<S> for SdkPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::from_request_parts(parts, state).await;
        let Path(id) = path.map_err(|error| ApiError::NoRoute(error.body_text()))?;
        Ok(Self(id))
    }
}

/// The id of a conversation, which a client has made.
#[derive(Debug, Clone)]
pub(in crate::http) struct ChatPath(pub(in crate::http) String);

impl<S: Send + Sync> FromRequestParts<S> for ChatPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::from_request_parts(parts, state).await;
        let Path(id) = path.map_err(|error| ApiError::NoRoute(error.body_text()))?;
        Ok(Self(id))
    }
}

#[derive(Deserialize)]
struct Names {
    session_id: String,
    run_id: Option<String>,
    n: Option<String>,
    tool_use_id: Option<String>,
    message_id: Option<String>,
}

impl Names {
    async fn of<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(names) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::NoRoute(error.body_text()))?;
        Ok(names)
    }

    fn session(&self) -> Result<SessionId, ApiError> {
        SessionId::from_str(&self.session_id)
            .map_err(|_| ApiError::Service(Error::SessionNotFound(self.session_id.clone())))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Names::of(parts, state).await?.session().map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = Names::of(parts, state).await?;
        let run = names.run_id.clone().unwrap_or_default();
        let run_id =
            RunId::from_str(&run).map_err(|_| ApiError::Service(Error::RunNotFound(run)))?;
        Ok(Self(names.session()?, run_id))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let RunPath(session_id, run_id) = RunPath::from_request_parts(parts, state).await?;
        let n = Names::of(parts, state).await?.n.unwrap_or_default();
        let number = n.parse().map_err(|_| ApiError::Service(Error::RequestNotFound(n)))?;
        Ok(Self(session_id, run_id, number))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CallPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = Names::of(parts, state).await?;
        let call = names.tool_use_id.clone().unwrap_or_default();
        // Postgres cannot store NUL, so no call has such an id.
        if call.contains('\0') {
            return Err(ApiError::Service(Error::ApprovalNotFound(call)));
        }
        Ok(Self(names.session()?, call))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for MessagePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = Names::of(parts, state).await?;
        let session_id = names.session()?;
        Ok(Self(session_id, names.message_id.unwrap_or_default()))
    }
}

#[derive(Deserialize)]
struct FileNames {
    session_id: Option<String>,
    file_id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for FilePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(FileNames { session_id, file_id }) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::NoRoute(error.body_text()))?;
        let session = |id: String| {
            SessionId::from_str(&id).map_err(|_| ApiError::Service(Error::SessionNotFound(id)))
        };
        let session_id = session_id.map(session).transpose()?;
        let file_id = FileId::from_str(&file_id)
            .map_err(|_| ApiError::Service(Error::FileNotFound(file_id)))?;
        Ok(Self(session_id, file_id))
    }
}

#[derive(Deserialize)]
struct WebhookNames {
    webhook_id: String,
    delivery_id: Option<String>,
}

impl WebhookNames {
    async fn of<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(names) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::NoRoute(error.body_text()))?;
        Ok(names)
    }

    fn webhook(&self) -> Result<WebhookId, ApiError> {
        let id = &self.webhook_id;
        WebhookId::from_str(id).map_err(|_| ApiError::Service(Error::WebhookNotFound(id.clone())))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for WebhookPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        WebhookNames::of(parts, state).await?.webhook().map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for DeliveryPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = WebhookNames::of(parts, state).await?;
        let webhook = names.webhook()?;
        let delivery = names.delivery_id.unwrap_or_default();
        let id = DeliveryId::from_str(&delivery)
            .map_err(|_| ApiError::Service(Error::DeliveryNotFound(delivery)))?;
        Ok(Self(webhook, id))
    }
}

#[derive(Deserialize)]
struct BrowserTokenNames {
    token_id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for BrowserTokenPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(BrowserTokenNames { token_id }) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::NoRoute(error.body_text()))?;
        let id = BrowserTokenId::from_str(&token_id)
            .map_err(|_| ApiError::Service(Error::BrowserTokenNotFound(token_id)))?;
        Ok(Self(id))
    }
}

#[derive(Deserialize)]
struct AgentNames {
    name: String,
}

impl<S: Send + Sync> FromRequestParts<S> for AgentPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(AgentNames { name }) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::NoRoute(error.body_text()))?;
        Ok(Self(name))
    }
}
