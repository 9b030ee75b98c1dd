//! Protection against requests from web pages of other origins.
//!
//! A browser lets any page send requests to any address, including one on the user's machine. A
//! service that requires keys is safe, because such a page has no key. A service without keys
//! refuses other origins, and host names that a page may have pointed at this machine (DNS
//! rebinding).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::http::error::ApiError;
use crate::http::server::forwarded::Origin;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The origins and host names that requests may name.
#[derive(Debug, Clone)]
pub struct BrowserPolicy {
    /// The origins whose pages may use the API.
    pub origins: Arc<[HeaderValue]>,
    /// The host names that requests may name, besides IP addresses and `localhost`; none allows
    /// any.
    pub hosts: Option<Arc<[String]>>,
    /// Refuses a request that names another port than this service's, unless its host name is one
    /// of `hosts`. The service has no proxies on other ports then that the operator has not named.
    pub checks_port: bool,
    /// The port of this service.
    pub port: u16,
    /// Refuses requests from pages of other origins, even if CORS keeps them from reading the answer.
    pub refuses_other_origins: bool,
}

/// Refuses requests from pages of origins that are not allowed.
pub(in crate::http) async fn layer(
    State(pages): State<Arc<BrowserPolicy>>,
    request: Request,
    next: Next,
) -> Response {
    let count = request.headers().get_all(HOST).iter().count();
    if count > 1 {
        return ApiError::InvalidHost(count).into_response();
    }
    // A proxy may rewrite `Host` and forward the original host in another header.
    let forwarded_host = request.extensions().get::<Origin>().and_then(Origin::host);
    let checked = match forwarded_host {
        Some(host) => pages.check_host_name(host),
        None => Ok(()),
    };
    match checked.and_then(|()| pages.check(request.method(), request.uri(), request.headers())) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

impl BrowserPolicy {
    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = host(uri, headers);
        host.as_deref().map_or(Ok(()), |host| self.check_host(host))?;
        if self.refuses_other_origins && self.is_cross_origin(method, host.as_deref(), headers) {
            return Err(ApiError::ForbiddenOrigin);
        }
        Ok(())
    }

    fn check_host(&self, host: &str) -> Result<(), ApiError> {
        let (name, port) = split_port(host);
        let is_named = self.hosts.as_ref().is_some_and(|known| known.contains(&plain(name)));
        let is_own_port = port.is_none_or(|port| port.parse() == Ok(self.port));
        if self.checks_port && !is_named && !is_own_port {
            return Err(ApiError::MisdirectedRequest(host.to_owned()));
        }
        self.check_host_name(host)
    }

    /// Checks a host without its port: proxies have ports of their own.
    fn check_host_name(&self, host: &str) -> Result<(), ApiError> {
        match &self.hosts {
            Some(known) if !is_allowed_host(known, split_port(host).0) => {
                Err(ApiError::MisdirectedRequest(host.to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reports whether a page of another origin, which is not allowed, sent the request.
    fn is_cross_origin(&self, method: &Method, host: Option<&str>, headers: &HeaderMap) -> bool {
        let site = headers.get(SITE);
        if let Some(origin) = headers.get(ORIGIN) {
            // The browser sets `Sec-Fetch-Site`; no page can forge it.
            let is_same = site.is_some_and(|site| site == "same-origin")
                || host.is_some_and(|host| is_origin_of(origin, host));
            return !is_same && !self.origins.contains(origin);
        }
        // A user may follow a link on another site.
        let follows = method.is_safe() && headers.get(MODE).is_some_and(|it| it == "navigate");
        site.is_some_and(|site| site == "cross-site") && !follows
    }
}

/// The host that a request names, with its port. A value that is not text becomes empty, which is
/// no known host.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let named = uri.authority().map(|authority| authority.as_str().to_owned());
    named.or_else(|| headers.get(HOST).map(text))
}

/// The host name, or the IPv6 address without its brackets, and the port.
fn split_port(host: &str) -> (&str, Option<&str>) {
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((address, port)) = bracketed
        && (port.is_empty() || port.starts_with(':'))
    {
        return (address, port.strip_prefix(':'));
    }
    host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)))
}

/// A host name in the form of the list of allowed ones.
fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// IP addresses and `localhost` are always allowed: DNS rebinding cannot change them. An unspecified
/// address, such as `0.0.0.0`, is not the address of any host; some systems connect to this machine
/// for it, which circumvents the rules of browsers for local addresses.
fn is_allowed_host(known: &[String], name: &str) -> bool {
    let name = plain(name);
    name.parse::<IpAddr>().is_ok_and(|address| !address.to_canonical().is_unspecified())
        || name == "localhost"
        || name.ends_with(".localhost")
        || known.contains(&name)
}

fn is_origin_of(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    named.is_some_and(|named| named.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> BrowserPolicy {
        BrowserPolicy {
            origins: Arc::new([HeaderValue::from_static("https://app.example")]),
            hosts: Some(Arc::new(["twostep.example".to_owned()])),
            checks_port: true,
            port: 8080,
            refuses_other_origins: true,
        }
    }

    /// The code of the refusal, if there is one.
    fn refusal(method: &Method, headers: &[(&'static str, &str)]) -> Option<String> {
        let pairs = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let headers: HeaderMap = pairs.collect();
        let checked = pages().check(method, &Uri::from_static("/v1/sessions"), &headers);
        checked.err().map(|error| format!("{error:?}").split('(').next().unwrap().to_owned())
    }

    #[test]
    fn an_unknown_host_name_is_refused() {
        for host in [
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
            "10.1.2.3",
            "localhost:8080",
            "LocalHost",
            "app.localhost:8080",
            "twostep.example",
            "Twostep.Example.:8080",
            "twostep.example:443",
        ] {
            assert_eq!(refusal(&Method::POST, &[("host", host)]), None, "{host}");
        }
        for host in [
            "evil.example:8080",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example",
            "[::1].evil.example",
            "[evil.example",
            "0.0.0.0:8080",
            "0.0.0.0",
            "[::]:8080",
            "[::ffff:0.0.0.0]:8080",
            "127.0.0.1:3000",
            "localhost:80",
            "[::1]:3000",
            "localhost:",
            "",
        ] {
            let refusal = refusal(&Method::GET, &[("host", host)]);
            assert_eq!(refusal.as_deref(), Some("MisdirectedRequest"), "{host}");
        }
        assert_eq!(refusal(&Method::POST, &[]), None, "browsers always send a host");
    }

    #[test]
    fn the_host_of_the_target_counts_before_the_header() {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
        let target = Uri::from_static("http://evil.example/v1/sessions");
        assert!(pages().check(&Method::GET, &target, &headers).is_err());
    }

    #[test]
    fn a_page_of_another_origin_is_refused_with_every_method() {
        let here = ("host", "localhost:8080");
        for origin in [
            "https://evil.example",
            "http://localhost:3000",
            "http://localhost",
            "null",
            "https://app.example.evil.example",
            "http://app.example",
            "",
        ] {
            for method in [Method::GET, Method::POST, Method::DELETE, Method::OPTIONS] {
                let refusal = refusal(&method, &[here, ("origin", origin)]);
                assert_eq!(refusal.as_deref(), Some("ForbiddenOrigin"), "{method} {origin}");
            }
        }
        for origin in ["http://localhost:8080", "https://localhost:8080", "https://app.example"] {
            assert_eq!(refusal(&Method::POST, &[here, ("origin", origin)]), None, "{origin}");
        }
    }

    #[test]
    fn the_sec_fetch_headers_decide_where_there_is_no_origin() {
        let here = ("host", "localhost");
        let says = |site| ("sec-fetch-site", site);
        let behind_a_proxy = [here, ("origin", "http://localhost:8080"), says("same-origin")];
        assert_eq!(refusal(&Method::POST, &behind_a_proxy), None);
        let refused = Some("ForbiddenOrigin".to_owned());
        assert_eq!(refusal(&Method::POST, &[here, says("cross-site")]), refused);
        assert_eq!(refusal(&Method::GET, &[here, says("cross-site")]), refused);
        let follows = ("sec-fetch-mode", "navigate");
        assert_eq!(refusal(&Method::GET, &[here, says("cross-site"), follows]), None);
        assert_eq!(refusal(&Method::POST, &[here, says("cross-site"), follows]), refused);
        assert_eq!(refusal(&Method::GET, &[here, says("none")]), None);
    }
}
