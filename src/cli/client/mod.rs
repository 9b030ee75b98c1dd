//! A client of the API, for the commands that use one.

mod call;
mod failure;
mod follow;
mod pages;
mod patience;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, Url};
use secrecy::{ExposeSecret as _, SecretString};

pub(super) use call::Call;
pub(super) use failure::Failure;
pub(super) use follow::{Came, Following};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The service says something every 15 s: after this silence nobody is there.
const SILENCE: Duration = Duration::from_mins(1);

/// Where the service is, and who asks.
#[derive(Debug, Clone, Args)]
pub(super) struct ServerArgs {
    /// The service; its path is kept, for one behind a prefix
    #[arg(long, global = true, env = "TWOSTEP_SERVER", hide_env_values = true, value_name = "URL",
          default_value = "http://127.0.0.1:8080", value_parser = server_url)]
    pub(super) server: Url,
    /// A key of its API. The variable is the better place: others can read arguments
    #[arg(long, global = true, env = "TWOSTEP_KEY", hide_env_values = true, value_name = "KEY")]
    pub(super) key: Option<SecretString>,
}

/// Reads the URL of a service.
pub(super) fn server_url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| "it is not a URL".to_owned())?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_plain = url.query().is_none() && url.fragment().is_none();
    if !is_web {
        return Err("it is not the URL of a web server".to_owned());
    }
    is_plain.then_some(url).ok_or_else(|| "it has a query or a fragment".to_owned())
}

/// A client of one service.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    /// Whether the service has answered: then it is worth to wait for it.
    has_answered: Arc<AtomicBool>,
}

impl Client {
    pub(super) fn new(args: &ServerArgs) -> anyhow::Result<Self> {
        let http = builder(args)?.read_timeout(SILENCE).build()?;
        Ok(Self { http, base: args.server.clone(), has_answered: Arc::default() })
    }

    /// A request for what is beneath `/v1`.
    pub(super) fn call(&self, method: Method, path: &[&str]) -> Call<'_> {
        Call::new(self, self.http.request(method, beneath(&self.base, path)))
    }

    /// A request that changes nothing.
    pub(super) fn get(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::GET, path)
    }

    /// The same, with a query.
    pub(super) fn get_with(&self, path: &[&str], query: &[(&str, &str)]) -> Call<'_> {
        let mut url = beneath(&self.base, path);
        url.query_pairs_mut().extend_pairs(query);
        Call::new(self, self.http.get(url))
    }

    /// A request that changes something.
    pub(super) fn post(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::POST, path)
    }

    /// The service for people, without what may be secret of its URL.
    fn place(&self) -> String {
        place(&self.base)
    }
}

/// How all requests are sent. A redirect is not followed: it may lead the key elsewhere.
pub(super) fn builder(args: &ServerArgs) -> anyhow::Result<reqwest::ClientBuilder> {
    let mut headers = HeaderMap::new();
    if let Some(key) = args.key.as_ref().filter(|key| !key.expose_secret().is_empty()) {
        let text = SecretString::from(format!("Bearer {}", key.expose_secret()));
        let Ok(mut value) = HeaderValue::from_str(text.expose_secret()) else {
            bail!("the key has a character that no key has");
        };
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let builder = reqwest::Client::builder()
        .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::none());
    // No proxy leads back to this machine.
    Ok(if is_here(&args.server) { builder.no_proxy() } else { builder })
}

fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The address of what is beneath `/v1` of this service.
pub(super) fn beneath(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push("v1").extend(path);
    }
    url
}

/// A URL for people, without what may be secret of it.
pub(super) fn place(url: &Url) -> String {
    let path = url.path().trim_end_matches('/');
    format!("{}{path}", url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_service_is_kept() {
        let at =
            |base: &str| beneath(&server_url(base).unwrap(), &["sessions", "ses_1"]).to_string();
        assert_eq!(at("http://host:8080"), "http://host:8080/v1/sessions/ses_1");
        assert_eq!(at("https://host/agent"), "https://host/agent/v1/sessions/ses_1");
        assert_eq!(at("https://host/agent/"), "https://host/agent/v1/sessions/ses_1");
    }

    #[test]
    fn a_name_cannot_lead_elsewhere() {
        let url = beneath(&server_url("http://host/").unwrap(), &["sessions", "../a?b#c"]);
        assert_eq!(url.as_str(), "http://host/v1/sessions/..%2Fa%3Fb%23c");
    }

    #[test]
    fn what_is_secret_of_a_url_is_not_said() {
        let url = server_url("https://me:geheim@host:8443/agent/").unwrap();
        assert_eq!(place(&url), "https://host:8443/agent");
        for odd in ["host", "ftp://host", "mailto:a@b", "http://host/?a=b", "http://host/#a"] {
            assert!(server_url(odd).is_err(), "{odd}");
        }
    }
}
