//! The path under which clients see the service, and the paths that they are told.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::Uri;
use http::uri::PathAndQuery;

tokio::task_local! {
    /// That of the request at hand.
    pub(in crate::http) static BASE: BasePath;
}

/// The longest one, in bytes.
const MAX_LENGTH: usize = 256;

/// The path under which clients see the service: empty, or segments with a slash before each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BasePath(Arc<str>);

/// A text that is no base path. What it begins with is in every link, so it is held to letters that
/// mean nothing anywhere.
#[derive(Debug, thiserror::Error)]
#[error(
    "a base path is / or segments such as /tools/agent, of letters, digits and -._~, with neither \
     empty ones nor . or .."
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
    /// The same target without this before its path; None where it is not there.
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

/// The path of something in this API, as the client has to ask for it. All paths that clients are
/// told are made here.
pub(in crate::http) fn link(path: fmt::Arguments<'_>) -> String {
    public(&format!("/v1{path}"))
}

/// A path that routes know, as the client sees it.
pub(in crate::http) fn public(path: &str) -> String {
    format!("{}{path}", of_request())
}

/// Keeps the base of the request at hand for work that another task does for it.
pub(in crate::http) fn carry<F: Future>(work: F) -> impl Future<Output = F::Output> {
    BASE.scope(of_request(), work)
}

fn of_request() -> BasePath {
    BASE.try_with(BasePath::clone).unwrap_or_default()
}
