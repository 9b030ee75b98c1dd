//! The headers that every request to the Messages API must have.

use axum::http::HeaderMap;

use super::betas::Betas;
use super::refusal::Refusal;

/// The API version that a request names in `anthropic-version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// `2023-06-01`
    Y2023,
    /// `2026-10-21`, without sampling parameters.
    Y2026,
}

/// The relevant headers of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApiHeaders {
    pub(crate) version: Version,
    pub(crate) betas: Betas,
}

/// Reads the headers of a request that a cloud with one version of the API has accepted.
pub(crate) fn betas_only(headers: &HeaderMap) -> Result<ApiHeaders, Refusal> {
    let betas = headers.get("anthropic-beta").and_then(|value| value.to_str().ok());
    let betas = betas.map(Betas::read).transpose()?.unwrap_or_default();
    Ok(ApiHeaders { version: Version::Y2023, betas })
}

/// Checks the API key and the version.
pub(crate) fn check_headers(headers: &HeaderMap) -> Result<ApiHeaders, Refusal> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let keys = [header("x-api-key"), bearer];
    if !keys.into_iter().flatten().any(|key| !key.trim().is_empty()) {
        return Err(Refusal::unauthenticated("x-api-key header is required"));
    }
    check_version(headers)
}

/// Checks the version.
pub(crate) fn check_version(headers: &HeaderMap) -> Result<ApiHeaders, Refusal> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let version = match header("anthropic-version") {
        Some("2023-06-01") => Version::Y2023,
        Some("2026-10-21") => Version::Y2026,
        Some(other) => {
            return Err(Refusal::invalid(format!(
                "anthropic-version: \"{other}\" is not a valid version"
            )));
        }
        None => return Err(Refusal::invalid("anthropic-version: header is required")),
    };
    let betas = header("anthropic-beta").map(Betas::read).transpose()?;
    Ok(ApiHeaders { version, betas: betas.unwrap_or_default() })
}
