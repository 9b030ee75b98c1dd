//! The versions of the AI SDK, which differ in the chunks that they accept.

use serde::Deserialize;

use crate::http::error::ApiError;

/// The query parameters of all routes.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ProfileQuery {
    /// The major version of the package `ai` in the browser: 5, 6 or 7; 6 by default. Version 5 has no
    /// approvals: a denied call is a failed one there.
    #[param(minimum = 5, maximum = 7, default = 6)]
    v: Option<u8>,
}

/// A version of the AI SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Profile {
    V5,
    V6,
    V7,
}

impl ProfileQuery {
    /// The version that the request names.
    pub(super) fn profile(&self) -> Result<Profile, ApiError> {
        match self.v.unwrap_or(6) {
            5 => Ok(Profile::V5),
            6 => Ok(Profile::V6),
            7 => Ok(Profile::V7),
            _ => Err(ApiError::query("v", "is not 5, 6 or 7")),
        }
    }
}

impl Profile {
    /// Returns true if the client knows approvals and denied calls.
    pub(super) fn has_approvals(self) -> bool {
        self >= Self::V6
    }

    /// Returns true if the client accepts the decision on a call in a stream.
    pub(super) fn has_approval_responses(self) -> bool {
        self >= Self::V7
    }
}
