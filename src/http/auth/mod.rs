//! Who calls, and what they may do.
//!
//! Every route of the API is behind [`layer`]. What a request needs goes by its method: reading is
//! reading, and all else changes something.

mod document;
mod keyring;
mod watch;

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use super::error::ApiError;
use crate::domain::api_key::{ApiKey, Scope};
use crate::domain::ids::{KeyId, TenantId};
pub(super) use document::secure;
pub(super) use keyring::Keyring;
use watch::watched;

/// The header that SDKs use in place of `Authorization`.
const API_KEY: &str = "x-api-key";

/// The caller of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    /// Whose sessions these are.
    pub(super) tenant: TenantId,
    scope: Scope,
}

impl Caller {
    /// Without keys everybody is the default tenant, and may do everything.
    const ANYBODY: Self = Self { tenant: TenantId::DEFAULT, scope: Scope::Write };
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // A route that is not behind the layer lets nobody in.
        parts.extensions.get().copied().ok_or(ApiError::Unauthenticated)
    }
}

/// Lets a request pass if its key is good for it. Without a keyring nobody is asked for a key.
pub(super) async fn layer(
    State(keyring): State<Option<Arc<Keyring>>>,
    mut request: Request,
    next: Next,
) -> Response {
    let admitted = match &keyring {
        Some(keyring) => admit(keyring, request.headers()).await.map(|(id, who)| (Some(id), who)),
        None => Ok((None, Caller::ANYBODY)),
    };
    let needed = needed_for(request.method());
    match admitted {
        Ok((_, caller)) if caller.scope < needed => ApiError::Forbidden(needed).into_response(),
        Ok((id, caller)) => {
            request.extensions_mut().insert(caller);
            let response = next.run(request).await;
            match keyring.zip(id) {
                Some((keyring, id)) => watched(response, keyring, id),
                None => response,
            }
        }
        Err(error) => error.into_response(),
    }
}

async fn admit(keyring: &Keyring, headers: &HeaderMap) -> Result<(KeyId, Caller), ApiError> {
    let key = given(headers).ok_or(ApiError::Unauthenticated)?;
    let caller = keyring.caller(&key).await?.ok_or(ApiError::Unauthenticated)?;
    Ok((key.id(), caller))
}

fn needed_for(method: &Method) -> Scope {
    if [Method::GET, Method::HEAD].contains(method) { Scope::Read } else { Scope::Write }
}

/// The key that a request gives: one, however often and in whichever header.
fn given(headers: &HeaderMap) -> Option<ApiKey> {
    let bearers = headers.get_all(AUTHORIZATION).iter().filter_map(bearer);
    let plain = headers.get_all(API_KEY).iter().map(|value| value.to_str().unwrap_or_default());
    let mut all = bearers.chain(plain.map(str::trim));
    let first = all.next()?;
    if all.all(|other| other == first) { first.parse().ok() } else { None }
}

/// What follows the word `Bearer`. Another word is meant for somebody before the service.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?.trim();
    let (scheme, key) = text.split_once(' ').unwrap_or((text, ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn found(headers: &[(&'static str, &str)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        given(&map).map(|key| key.reveal())
    }

    #[test]
    fn a_key_is_found_in_either_header() {
        let key = ApiKey::generate().unwrap().reveal();
        let bearer = format!("Bearer {key}");
        let odd = format!("bEARER   {key}");
        for headers in [
            &[("authorization", &*bearer)][..],
            &[("authorization", &*odd)],
            &[("x-api-key", &*key)],
            &[("authorization", &*bearer), ("x-api-key", &*key)],
            &[("x-api-key", &*key), ("x-api-key", &*key)],
            &[("authorization", "Basic dXNlcjpwYXNz"), ("x-api-key", &*key)],
        ] {
            assert_eq!(found(headers).as_ref(), Some(&key), "{headers:?}");
        }
    }

    #[test]
    fn what_is_not_one_key_is_none() {
        let [key, other] = [(); 2].map(|()| ApiKey::generate().unwrap().reveal());
        let (bearer, basic) = (format!("Bearer {key}"), format!("Basic {key}"));
        for headers in [
            &[][..],
            &[("authorization", &*key)],
            &[("authorization", &*basic)],
            &[("authorization", "Bearer")],
            &[("authorization", "Bearer "), ("x-api-key", "")],
            &[("authorization", &*bearer), ("x-api-key", &*other)],
            &[("authorization", "Bearer"), ("x-api-key", &*key)],
            &[("x-api-key", &*key), ("x-api-key", &*other)],
        ] {
            assert_eq!(found(headers), None, "{headers:?}");
        }
    }
}
