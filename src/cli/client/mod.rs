//! The API client of the commands.

mod backoff;
mod call;
mod failure;
mod follow;
mod pages;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, Url};
use secrecy::{ExposeSecret, SecretString};

use crate::config::secret_option;
pub(super) use call::Call;
pub(super) use failure::Failure;
pub(super) use follow::{Following, Update};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without data after which a connection counts as lost. The service sends a keep-alive every
/// 10 s.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// The address of the service and the key for it.
#[derive(Debug, Clone, Args)]
pub(super) struct ServerArgs {
    /// URL of the service; its path is kept, for a service behind a path prefix
    #[arg(long, global = true, env = "TWOSTEP_SERVER", hide_env_values = true, value_name = "URL",
          default_value = "http://127.0.0.1:8080", value_parser = server_url)]
    pub(super) server: Url,
    /// API key. Prefer the variable, because other users of the machine can read arguments
    #[arg(long, global = true, env = "TWOSTEP_KEY", hide_env_values = true, value_name = "KEY")]
    pub(super) key: Option<SecretString>,
    /// True for a service that needs no key.
    #[arg(skip)]
    pub(super) is_open: bool,
}

impl ServerArgs {
    /// The key, if one is set by an option, a variable or a file.
    fn key(&self) -> anyhow::Result<Option<SecretString>> {
        if self.is_open {
            return Ok(None);
        }
        let given = self.key.as_ref().map(ExposeSecret::expose_secret);
        Ok(secret_option(given, "TWOSTEP_KEY")?.map(SecretString::from))
    }
}

/// Parses the URL of a service.
pub(super) fn server_url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| "not a URL".to_owned())?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_plain = url.query().is_none() && url.fragment().is_none();
    if !is_web {
        return Err("not an http or https URL".to_owned());
    }
    is_plain.then_some(url).ok_or_else(|| "the URL has a query or a fragment".to_owned())
}

/// A client of one service.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    /// True after the first response: only then are failed connections retried.
    has_answered: Arc<AtomicBool>,
}

impl Client {
    pub(super) fn new(args: &ServerArgs) -> anyhow::Result<Self> {
        let http = builder(args)?.read_timeout(READ_TIMEOUT).build()?;
        Ok(Self { http, base: args.server.clone(), has_answered: Arc::default() })
    }

    /// A request for a path under `/v1`.
    pub(super) fn call(&self, method: Method, path: &[&str]) -> Call<'_> {
        Call::new(self, self.http.request(method, api_url(&self.base, path)))
    }

    /// A GET request.
    pub(super) fn get(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::GET, path)
    }

    /// A GET request with a query.
    pub(super) fn get_with(&self, path: &[&str], query: &[(&str, &str)]) -> Call<'_> {
        let mut url = api_url(&self.base, path);
        url.query_pairs_mut().extend_pairs(query);
        Call::new(self, self.http.get(url))
    }

    /// A POST request.
    pub(super) fn post(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::POST, path)
    }

    /// The URL of the service without its secrets.
    fn display_url(&self) -> String {
        display_url(&self.base)
    }
}

/// The HTTP client for all requests. Redirects are not followed, because they could send the key to
/// another server.
pub(super) fn builder(args: &ServerArgs) -> anyhow::Result<reqwest::ClientBuilder> {
    let mut headers = HeaderMap::new();
    if let Some(key) = args.key()? {
        let text = SecretString::from(format!("Bearer {}", key.expose_secret()));
        let Ok(mut value) = HeaderValue::from_str(text.expose_secret()) else {
            bail!("the key contains a character that is not allowed in a key");
        };
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let builder = reqwest::Client::builder()
        .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::none());
    // A proxy cannot reach services on this machine.
    Ok(if is_local(&args.server) { builder.no_proxy() } else { builder })
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The URL of a path under `/v1` of this service.
pub(super) fn api_url(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push("v1").extend(path);
    }
    url
}

/// A URL without user name, password and query.
pub(super) fn display_url(url: &Url) -> String {
    let path = url.path().trim_end_matches('/');
    format!("{}{path}", url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_service_url_is_kept() {
        let at =
            |base: &str| api_url(&server_url(base).unwrap(), &["sessions", "ses_1"]).to_string();
        assert_eq!(at("http://host:8080"), "http://host:8080/v1/sessions/ses_1");
        assert_eq!(at("https://host/agent"), "https://host/agent/v1/sessions/ses_1");
        assert_eq!(at("https://host/agent/"), "https://host/agent/v1/sessions/ses_1");
    }

    #[test]
    fn a_name_cannot_change_the_path() {
        let url = api_url(&server_url("http://host/").unwrap(), &["sessions", "../a?b#c"]);
        assert_eq!(url.as_str(), "http://host/v1/sessions/..%2Fa%3Fb%23c");
    }

    #[test]
    fn secrets_of_a_url_are_not_displayed() {
        let url = server_url("https://me:geheim@host:8443/agent/").unwrap();
        assert_eq!(display_url(&url), "https://host:8443/agent");
        for odd in ["host", "ftp://host", "mailto:a@b", "http://host/?a=b", "http://host/#a"] {
            assert!(server_url(odd).is_err(), "{odd}");
        }
    }
}
