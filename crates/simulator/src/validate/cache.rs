//! Cache breakpoints: form, number and order.

use serde_json::Value;

use super::{Checked, refuse};
use crate::request::{ApiRequest, ContentBlock, blocks};

/// Maximum number of breakpoints in a request; automatic caching uses one.
const MAX_BREAKPOINTS: usize = 4;

/// Checks the breakpoints of settings and messages.
pub(super) fn check(request: ApiRequest<'_>) -> Checked {
    let automatic = request.get("cache_control").filter(|marker| !marker.is_null());
    let placed: Vec<&Value> = settings(request).chain(messages(request)).collect();
    let found = placed.len() + usize::from(automatic.is_some());
    placed.iter().copied().chain(automatic).try_for_each(shape)?;
    if found > MAX_BREAKPOINTS {
        return refuse(format!(
            "A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {found}."
        ));
    }
    // The automatic breakpoint is the last one.
    order(placed.into_iter().chain(automatic))?;
    same_at_the_end(request, automatic)
}

/// Breakpoints of one hour precede those of five minutes.
fn order<'a>(markers: impl Iterator<Item = &'a Value>) -> Checked {
    let mut is_short = false;
    for marker in markers {
        let is_long = is_long(marker);
        if is_long && is_short {
            return refuse(
                "cache_control.ttl: a ttl='1h' cache_control block must not come after a \
                 ttl='5m' cache_control block. Note that blocks are processed in the following \
                 order: `tools`, `system`, `messages`.",
            );
        }
        is_short |= !is_long;
    }
    Ok(())
}

/// The last block can have a breakpoint too, but only with the lifetime of the automatic one.
fn same_at_the_end(request: ApiRequest<'_>, automatic: Option<&Value>) -> Checked {
    let last = request.messages().iter().flat_map(blocks).last();
    let marker = last.and_then(|block| block.get("cache_control")).filter(|mark| !mark.is_null());
    match (automatic, marker) {
        (Some(automatic), Some(marker)) if is_long(automatic) != is_long(marker) => refuse(
            "cache_control: the last block is already marked with a different ttl than automatic \
             caching asks for",
        ),
        _ => Ok(()),
    }
}

fn is_long(marker: &Value) -> bool {
    marker.get("ttl").is_some_and(|ttl| ttl == "1h")
}

fn settings(request: ApiRequest<'_>) -> impl Iterator<Item = &Value> {
    let system = request.get("system").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    request.tools().iter().chain(system).filter_map(marker)
}

fn messages(request: ApiRequest<'_>) -> impl Iterator<Item = &Value> {
    request.messages().iter().flat_map(blocks).flat_map(|block| {
        let inner = match block {
            ContentBlock::Json(value) if block.is("tool_result") => value.get("content"),
            ContentBlock::Json(_) | ContentBlock::Text(_) => None,
        };
        let inner = inner.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let own = block.get("cache_control").filter(|marker| !marker.is_null());
        inner.iter().filter_map(marker).chain(own)
    })
}

fn marker(block: &Value) -> Option<&Value> {
    block.get("cache_control").filter(|marker| !marker.is_null())
}

fn shape(marker: &Value) -> Checked {
    if marker.is_null() {
        return Ok(());
    }
    if marker.get("type").is_none_or(|kind| kind != "ephemeral") {
        return refuse("cache_control.type: Input should be 'ephemeral'");
    }
    match marker.get("ttl").map(Value::as_str) {
        None | Some(Some("5m" | "1h")) => Ok(()),
        Some(_) => refuse("cache_control.ttl: Input should be '5m' or '1h'"),
    }
}
