//! The types of errors that model servers report.

/// The type of an error that the server reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is invalid.
    InvalidRequest,
    /// The API key is invalid.
    Authentication,
    /// The account has a billing problem.
    Billing,
    /// The API key lacks a permission.
    Permission,
    /// The model or path does not exist.
    NotFound,
    /// The request conflicts with another request.
    Conflict,
    /// The request is too large.
    RequestTooLarge,
    /// The rate limit is exceeded.
    RateLimit,
    /// The account's spend limit is reached; retries fail until the month ends.
    SpendLimit,
    /// An internal error of the server.
    Api,
    /// A timeout inside the server.
    Timeout,
    /// The server is overloaded.
    Overloaded,
    /// An error type that this version does not know.
    Other(String),
}

impl ErrorKind {
    /// Parses the server's error type; `details.error_code` has priority where it is more specific
    /// than `error.type`.
    pub fn parse(kind: &str, code: Option<&str>) -> Self {
        if let Some("enforced_spend_limit_reached" | "contract_spend_limit_reached") = code {
            return Self::SpendLimit;
        }
        match kind {
            "invalid_request_error" => Self::InvalidRequest,
            "authentication_error" => Self::Authentication,
            "billing_error" => Self::Billing,
            "permission_error" => Self::Permission,
            "not_found_error" => Self::NotFound,
            "conflict_error" => Self::Conflict,
            "request_too_large" => Self::RequestTooLarge,
            "rate_limit_error" => Self::RateLimit,
            "api_error" => Self::Api,
            "timeout_error" => Self::Timeout,
            "overloaded_error" => Self::Overloaded,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The error type of a response whose body is not readable.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Authentication,
            402 => Self::Billing,
            403 => Self::Permission,
            404 => Self::NotFound,
            408 | 504 => Self::Timeout,
            409 => Self::Conflict,
            413 => Self::RequestTooLarge,
            429 => Self::RateLimit,
            529 => Self::Overloaded,
            500.. => Self::Api,
            300..=399 => Self::Other("redirect".to_owned()),
            _ => Self::InvalidRequest,
        }
    }

    /// The name in JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::Authentication => "authentication_error",
            Self::Billing => "billing_error",
            Self::Permission => "permission_error",
            Self::NotFound => "not_found_error",
            Self::Conflict => "conflict_error",
            Self::RequestTooLarge => "request_too_large",
            Self::RateLimit => "rate_limit_error",
            Self::SpendLimit => "spend_limit_reached",
            Self::Api => "api_error",
            Self::Timeout => "timeout_error",
            Self::Overloaded => "overloaded_error",
            Self::Other(name) => name,
        }
    }

    pub(super) fn retryable(&self, status: Option<u16>) -> bool {
        match self {
            Self::Conflict | Self::RateLimit | Self::Api | Self::Timeout | Self::Overloaded => true,
            Self::Authentication
            | Self::Billing
            | Self::Permission
            | Self::NotFound
            | Self::RequestTooLarge
            | Self::SpendLimit => false,
            // The status decides even against the body: a proxy may have set it.
            Self::InvalidRequest | Self::Other(_) => {
                status.is_some_and(|status| matches!(status, 408 | 409 | 429 | 500..))
            }
        }
    }
}
