//! The tool definitions of requests.

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};

use super::cache_breakpoint::CacheBreakpoint;
use crate::domain::session::Settings;
use crate::model::deferred_tools::DeferredTools;

/// The tools of a request before any deferred tool is found, and the deferred ones of the session. The
/// API allows no breakpoint in a deferred tool, so the deferred tools follow the others.
pub(super) fn tools<'a>(
    settings: &'a Settings,
    tools_of_run: Option<&RawValue>,
    breakpoint: Option<CacheBreakpoint>,
) -> Result<(Cow<'a, RawValue>, Option<DeferredTools>), serde_json::Error> {
    let (loaded, deferred) = match DeferredTools::of(settings)? {
        Some((deferred, loaded)) => (Cow::Owned(loaded), Some(deferred)),
        None => (Cow::Borrowed(settings.tools.as_ref()), None),
    };
    // Also a request with tools of its own reads the pinned tools from the cache.
    let pinned = match breakpoint {
        Some(breakpoint) => Cow::Owned(breakpoint.at_the_end(&loaded)?),
        None => loaded,
    };
    let pinned = match deferred.as_ref().filter(|tools| tools.are_by_reference()) {
        Some(deferred) => Cow::Owned(joined(&pinned, &deferred.marked()?)?),
        None => pinned,
    };
    Ok((with_tools_of_run(pinned, tools_of_run)?, deferred))
}

/// The tools of the session, followed by those of the run.
fn with_tools_of_run<'a>(
    pinned: Cow<'a, RawValue>,
    tools_of_run: Option<&RawValue>,
) -> Result<Cow<'a, RawValue>, serde_json::Error> {
    Ok(match tools_of_run {
        Some(more) => Cow::Owned(joined(&pinned, more)?),
        None => pinned,
    })
}

/// Concatenates two JSON arrays of tool definitions without changing their text.
fn joined(first: &RawValue, more: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let mut all: Vec<&RawValue> = serde_json::from_str(first.get())?;
    all.extend(serde_json::from_str::<Vec<&RawValue>>(more.get())?);
    to_raw_value(&all)
}
