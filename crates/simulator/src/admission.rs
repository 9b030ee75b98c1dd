//! What every request must bring in its headers.

use axum::http::HeaderMap;

use super::betas::Betas;
use super::refusal::Refusal;

/// The version of the API that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// `2023-06-01`
    Y2023,
    /// `2026-10-21`, without sampling parameters.
    Y2026,
}

/// What the headers say about a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admission {
    pub(crate) version: Version,
    pub(crate) betas: Betas,
}

/// Checks the key and the version.
pub(crate) fn admit(headers: &HeaderMap) -> Result<Admission, Refusal> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let keys = [header("x-api-key"), bearer];
    if !keys.into_iter().flatten().any(|key| !key.trim().is_empty()) {
        return Err(Refusal::unauthenticated("x-api-key header is required"));
    }
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
    Ok(Admission { version, betas: betas.unwrap_or_default() })
}
