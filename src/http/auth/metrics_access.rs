//! Access to the metrics at the address of the API.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::bearer;
use super::caller::API_KEY;
use crate::http::error::ApiError;

/// The callers that may read the metrics, which are about all tenants. An API key belongs to one
/// tenant and therefore gives no access.
#[derive(Debug, Clone)]
pub enum MetricsAccess {
    /// Every caller that reaches the address.
    Open,
    /// Callers with this key.
    Key(SecretString),
    /// No caller: the operator has set no key.
    Closed,
}

impl MetricsAccess {
    /// Refuses a request that does not have the key in `Authorization` or `x-api-key`.
    pub(in crate::http) fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let is_allowed = match self {
            Self::Open => true,
            Self::Key(key) => {
                let bearers = headers.get_all(AUTHORIZATION).iter().filter_map(bearer);
                let plain = headers.get_all(API_KEY).iter().filter_map(|value| value.to_str().ok());
                let expected = key.expose_secret().as_bytes();
                bearers.chain(plain).any(|given| given.as_bytes().ct_eq(expected).into())
            }
            Self::Closed => false,
        };
        if is_allowed { Ok(()) } else { Err(ApiError::MetricsKeyMissing) }
    }
}
