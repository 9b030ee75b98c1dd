//! Authentication and authorization.
//!
//! Every route of the API is behind [`layer`]. The method of a request decides the scope that a key
//! needs: safe methods need `read`, all others `write`. The routes for browser tokens, and the scope that
//! each needs, are listed in [`browser_routes`].

mod browser_routes;
mod browser_tokens;
mod caller;
mod document;
mod keyring;
mod lookup_cache;
mod metrics_access;
mod ticket;
mod tokens;
mod watch;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use crate::domain::api_key::{ApiKey, Scope};
use crate::domain::browser_token::BrowserToken;
use crate::domain::principal::Principal;
use crate::http::error::ApiError;
use crate::http::server::request_id::{record_browser_token, record_key};
use caller::API_KEY;
pub(in crate::http) use caller::Caller;
pub(in crate::http) use document::{declare_open, operations, problem, secure};
pub(in crate::http) use keyring::Keyring;
pub use metrics_access::MetricsAccess;
use ticket::{RequestTicket, creates_ticket};
use watch::watched;

/// Passes a request on if its key is valid and has the scope. Without a keyring no key is required.
pub(in crate::http) async fn layer(
    State(keyring): State<Option<Arc<Keyring>>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let ticket = ticket::extract_ticket(&mut parts).await;
    let authorized = match &keyring {
        Some(keyring) => authorize(keyring, &mut parts, ticket).await,
        None => Ok(Caller::ANYBODY),
    };
    match authorized {
        Ok(caller) => {
            let principal = caller.principal;
            parts.extensions.insert(caller);
            let response = next.run(Request::from_parts(parts, body)).await;
            match keyring.zip(principal) {
                Some((keyring, principal)) => watched(response, keyring, principal),
                None => response,
            }
        }
        Err(error) => error.into_response(),
    }
}

/// The caller of a request, if it is allowed to make the request.
async fn authorize(
    keyring: &Keyring,
    parts: &mut Parts,
    ticket: Option<RequestTicket>,
) -> Result<Caller, ApiError> {
    let caller = authenticate(keyring, &parts.headers, ticket).await?;
    match caller.principal {
        Some(Principal::Key(id)) => record_key(id),
        Some(Principal::BrowserToken(id)) => record_browser_token(id),
        Some(Principal::Token(..)) | None => {}
    }
    if let Some(grant) = caller.browser.clone() {
        keyring.authorize_browser(&caller, &grant, parts).await?;
        return Ok(caller);
    }
    let required = required_scope(&parts.method, parts.uri.path());
    if caller.scope < required { Err(ApiError::Forbidden(required)) } else { Ok(caller) }
}

async fn authenticate(
    keyring: &Keyring,
    headers: &HeaderMap,
    ticket: Option<RequestTicket>,
) -> Result<Caller, ApiError> {
    let caller = match (find_credential(headers), ticket) {
        (Some(RequestCredential::Key(key)), _) => keyring.caller(&key).await?,
        (Some(RequestCredential::Browser(token)), _) => keyring.browser(&token).await?,
        (Some(RequestCredential::Token(token)), _) => keyring.bearer(token).await?,
        (None, Some(ticket)) => keyring.redeem(&ticket).await?,
        (None, None) if has_credential(headers) => None,
        (None, None) => return Err(ApiError::Unauthenticated),
    };
    caller.ok_or(ApiError::InvalidCredential)
}

/// Returns true if a request has a text where a key is expected, whatever its form.
fn has_credential(headers: &HeaderMap) -> bool {
    let has_bearer =
        headers.get_all(AUTHORIZATION).iter().filter_map(bearer).any(|it| !it.is_empty());
    has_bearer || headers.get_all(API_KEY).iter().any(|value| !value.is_empty())
}

/// The scope that a request needs. A ticket grants no more than the key that created it, so creating
/// one needs `read` only.
fn required_scope(method: &Method, path: &str) -> Scope {
    let is_reading = [Method::GET, Method::HEAD].contains(method) || creates_ticket(path);
    if is_reading { Scope::Read } else { Scope::Write }
}

/// A credential of a request.
#[derive(Debug)]
enum RequestCredential<'a> {
    Key(ApiKey),
    Browser(BrowserToken),
    /// A text with the three parts of a JWT.
    Token(&'a str),
}

/// The credential of a request. Several headers must have the same value.
fn find_credential(headers: &HeaderMap) -> Option<RequestCredential<'_>> {
    let bearers = headers.get_all(AUTHORIZATION).iter().filter_map(bearer);
    let plain = headers.get_all(API_KEY).iter().map(|value| value.to_str().unwrap_or_default());
    let mut all = bearers.chain(plain.map(str::trim));
    let first = all.next()?;
    if !all.all(|other| other == first) {
        return None;
    }
    if let Ok(key) = first.parse() {
        return Some(RequestCredential::Key(key));
    }
    if let Ok(token) = first.parse() {
        return Some(RequestCredential::Browser(token));
    }
    (first.split('.').count() == 3).then_some(RequestCredential::Token(first))
}

/// The credential after `Bearer`. Other schemes are meant for a proxy before the service.
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
        find_credential(&map).map(|credential| match credential {
            RequestCredential::Key(key) => key.reveal(),
            RequestCredential::Browser(token) => token.reveal(),
            RequestCredential::Token(token) => token.to_owned(),
        })
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
    fn a_token_is_accepted_in_place_of_a_key() {
        for headers in [
            &[("authorization", "Bearer e30.e30.c2ln")][..],
            &[("x-api-key", "e30.e30.c2ln")],
            &[("authorization", "Bearer e30.e30.c2ln"), ("x-api-key", "e30.e30.c2ln")],
        ] {
            assert_eq!(found(headers).as_deref(), Some("e30.e30.c2ln"), "{headers:?}");
        }
        for text in ["e30.e30", "e30.e30.c2ln.e30", "e30"] {
            assert_eq!(found(&[("x-api-key", text)]), None, "{text}");
        }
    }

    #[test]
    fn differing_or_malformed_credentials_are_none() {
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
