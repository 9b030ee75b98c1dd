//! Claude in clouds: the endpoints of Amazon Bedrock and Google Cloud to the Messages API.
//!
//! An endpoint checks the access and the form of a request as the cloud does, and passes the request on in the
//! form of the Messages API.

mod bedrock;
mod limits;
mod signature;
#[cfg(test)]
mod tests;
mod tokens;
mod vertex;

pub(crate) use bedrock::check_bedrock;
pub(crate) use tokens::{Tokens, metadata_token, token};
pub(crate) use vertex::{Endpoint, check_vertex};

/// The region of the simulated clouds.
pub const REGION: &str = "us-east-1";
/// The id of the access key that the simulated Amazon Bedrock accepts.
pub const ACCESS_KEY_ID: &str = "AKIDSIMULATOR";
/// The secret of this access key.
pub const SECRET_ACCESS_KEY: &str = "planted-aws-secret";
/// The session token of this access key.
pub const SESSION_TOKEN: &str = "planted-aws-session-token";
/// A session token that has expired.
pub const EXPIRED_SESSION_TOKEN: &str = "planted-aws-expired-token";
/// The project of the simulated Google Cloud.
pub const PROJECT: &str = "project-1";
