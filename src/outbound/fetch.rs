//! Requests for untrusted URLs, with validation of every redirect.

use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Response, Url};
use tokio::time::timeout;

use super::body::{BadBody, read_body};
use super::{Outbound, Reach, RefusedUrl};

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;
/// Maximum size of a page, in bytes, before and after decompression.
pub const MAX_PAGE: usize = 5 * 1024 * 1024;
/// Timeout of a page, including its redirects.
pub const PAGE_TIMEOUT: Duration = Duration::from_secs(20);
/// The `Accept` header.
const ACCEPTED: &str = "text/html, application/xhtml+xml;q=0.9, text/*;q=0.8, application/json;q=0.8, \
    */*;q=0.1";

/// A fetched page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The URL after all redirects.
    pub url: Url,
    /// The `Content-Type` header.
    pub content_type: Option<String>,
    /// The decompressed body.
    pub body: Vec<u8>,
}

/// The cause of a failed request for a page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The address rules refuse the URL.
    #[error("the URL {0}")]
    Refused(#[from] RefusedUrl),
    /// The URL of a public host has a port other than the default.
    #[error("the URL has a port")]
    Port,
    /// There were too many redirects.
    #[error("there were more than {MAX_REDIRECTS} redirects")]
    Redirects,
    /// A redirect has no valid `Location` header.
    #[error("a redirect has no valid URL")]
    Location,
    /// The connection or the request failed.
    #[error("the host cannot be reached: {0}")]
    Unreachable(reqwest::Error),
    /// The timeout has passed.
    #[error("the response was not complete in time")]
    Slow,
    /// The response has an error status.
    #[error("the answer has the status {0}")]
    Status(u16),
    /// The body could not be read.
    #[error(transparent)]
    Body(#[from] BadBody),
}

impl Outbound {
    /// Requests a page and follows redirects. Every URL is validated like the first one.
    pub async fn page(&self, url: Url) -> Result<Page, PageError> {
        timeout(PAGE_TIMEOUT, self.follow(url)).await.unwrap_or(Err(PageError::Slow))
    }

    async fn follow(&self, mut url: Url) -> Result<Page, PageError> {
        let mut previous_reach = Reach::Listed;
        for _ in 0..=MAX_REDIRECTS {
            let (target, reach) = self.normalized(url)?;
            // A public host must not redirect requests to hosts that the operator listed.
            if (previous_reach, reach) == (Reach::Public, Reach::Listed) {
                return Err(RefusedUrl::Host.into());
            }
            let request = self.client_by(reach).get(target.clone());
            let request = request.header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, "gzip, br");
            let response = request.send().await.map_err(request_error)?;
            match redirect(&response, &target)? {
                Some(next) => (url, previous_reach) = (next, reach),
                None => return read(response, target).await,
            }
        }
        Err(PageError::Redirects)
    }

    /// Normalizes the URL of a page: removes the fragment, which is never sent, and replaces `http`
    /// with `https` unless the operator listed the host.
    fn normalized(&self, mut url: Url) -> Result<(Url, Reach), PageError> {
        url.set_fragment(None);
        let is_plain = url.scheme() == "http" && url.port().is_none();
        if is_plain && self.hosts.reach(&url) != Ok(Reach::Listed) {
            url.set_scheme("https").map_err(|()| RefusedUrl::Scheme)?;
        }
        let reach = self.hosts.reach(&url)?;
        if reach == Reach::Public && url.port().is_some() {
            return Err(PageError::Port);
        }
        Ok((url, reach))
    }
}

fn request_error(error: reqwest::Error) -> PageError {
    if error.is_timeout() { PageError::Slow } else { PageError::Unreachable(error.without_url()) }
}

fn redirect(response: &Response, place: &Url) -> Result<Option<Url>, PageError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION).ok_or(PageError::Location)?;
    let location = location.to_str().map_err(|_| PageError::Location)?;
    place.join(location).map(Some).map_err(|_| PageError::Location)
}

async fn read(response: Response, url: Url) -> Result<Page, PageError> {
    if !response.status().is_success() {
        return Err(PageError::Status(response.status().as_u16()));
    }
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Page { url, content_type, body: read_body(response, MAX_PAGE).await? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::AllowedHosts;

    fn normalized(url: &str) -> Result<String, String> {
        // Fails if another test of the same process has installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let hosts = AllowedHosts::parse(["public", "wiki.internal", "127.0.0.1:9000"]).unwrap();
        let outbound = Outbound::new(hosts, PAGE_TIMEOUT).unwrap();
        let place = outbound.normalized(url.parse().unwrap());
        place.map(|(url, _)| url.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_is_requested_with_tls_and_without_fragment() {
        for (url, expected) in [
            ("http://example.com/a?b#c", "https://example.com/a?b"),
            ("http://example.com:80/", "https://example.com/"),
            ("https://example.com:443/", "https://example.com/"),
            ("http://wiki.internal/a#b", "http://wiki.internal/a"),
            ("http://wiki.internal:8080/", "http://wiki.internal:8080/"),
            ("http://127.0.0.1:9000/", "http://127.0.0.1:9000/"),
        ] {
            assert_eq!(normalized(url).as_deref(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn other_ports_and_addresses_are_refused_for_hosts_that_are_not_listed() {
        for (url, expected) in [
            ("http://example.com:8080/", "the URL is not an https URL"),
            ("https://example.com:8443/", "the URL has a port"),
            ("https://example.com:80/", "the URL has a port"),
            ("http://127.0.0.1/", "the URL is at an address that is not public"),
            ("http://10.1/", "the URL is at an address that is not public"),
            ("http://me@example.com/", "the URL has a user name or a password"),
            ("ftp://example.com/", "the URL is not an http or https URL"),
        ] {
            assert_eq!(normalized(url), Err(expected.to_owned()), "{url}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_host_is_a_timeout() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let hosts = AllowedHosts::parse([address.as_str()]).unwrap();
        let outbound = Outbound::new(hosts, PAGE_TIMEOUT).unwrap();
        let started = tokio::time::Instant::now();
        let page = outbound.page(format!("http://{address}/").parse().unwrap()).await;
        assert!(matches!(page, Err(PageError::Slow)), "{page:?}");
        assert_eq!(started.elapsed().as_secs(), PAGE_TIMEOUT.as_secs());
    }
}
