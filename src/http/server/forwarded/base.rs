//! The base path under which clients see the service, and the links below it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::Uri;
use http::uri::PathAndQuery;

tokio::task_local! {
    /// The base path of the current request.
    pub(in crate::http) static BASE: BasePath;
}

/// The maximum length of a base path in bytes.
const MAX_LENGTH: usize = 256;

/// The path under which clients see the service: empty, or segments with a slash before each one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BasePath(Arc<str>);

/// An invalid base path. A base path is part of every link, so only characters without a special
/// meaning are allowed.
#[derive(Debug, thiserror::Error)]
#[error(
    "a base path is / or segments such as /tools/agent: letters, digits and -._~ only, no empty \
     segment, no . or .."
)]
pub struct BadBasePath;

impl FromStr for BasePath {
    type Err = BadBasePath;

    fn from_str(text: &str) -> Result<Self, BadBasePath> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        let is_segment =
            |segment: &str| !matches!(segment, "" | "." | "..") && segment.chars().all(is_plain);
        let mut segments = path.split('/');
        let is_absolute = text.starts_with('/') && segments.next() == Some("");
        if !is_absolute || text.len() > MAX_LENGTH || !segments.all(is_segment) {
            return Err(BadBasePath);
        }
        Ok(Self(path.into()))
    }
}

impl fmt::Display for BasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl BasePath {
    /// The target without this prefix of its path; none if the path does not begin with it.
    pub(super) fn strip(&self, uri: &Uri) -> Option<Uri> {
        let target = uri.path_and_query()?.as_str();
        let rest = target.strip_prefix(&*self.0).filter(|_| !self.0.is_empty())?;
        let rest = match rest.chars().next() {
            Some('/') => PathAndQuery::from_str(rest),
            None | Some('?') => PathAndQuery::try_from(format!("/{rest}")),
            Some(_) => return None,
        };
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(rest.ok()?);
        Uri::from_parts(parts).ok()
    }
}

/// The link to a path of the API, as clients request it. All links in responses are made here.
pub(in crate::http) fn link(path: fmt::Arguments<'_>) -> String {
    public(&format!("/v1{path}"))
}

/// A path of the router, as clients see it.
pub(in crate::http) fn public(path: &str) -> String {
    format!("{}{path}", of_request())
}

/// Carries the base path of the current request into work that another task does for it.
pub(in crate::http) fn carry<F: Future>(work: F) -> impl Future<Output = F::Output> {
    BASE.scope(of_request(), work)
}

fn of_request() -> BasePath {
    BASE.try_with(BasePath::clone).unwrap_or_default()
}
