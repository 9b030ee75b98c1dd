//! The rules for browsers of a service under test.

use std::sync::Arc;

use reqwest::header::HeaderValue;
use twostep::http::BrowserPolicy;

pub(crate) fn of(
    needs_keys: bool,
    origins: &[&'static str],
    hosts: Option<&[&str]>,
) -> BrowserPolicy {
    let names = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
    BrowserPolicy {
        origins: origins.iter().map(|origin| HeaderValue::from_static(origin)).collect(),
        hosts: hosts.map(|hosts| Arc::from(names(hosts))),
        checks_port: hosts.is_some() && !needs_keys,
        port: 0,
        refuses_other_origins: !needs_keys,
    }
}
