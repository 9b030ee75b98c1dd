//! Cache breakpoints: their shape and their number.

use serde_json::Value;

use super::{Checked, refuse};
use crate::simulator::request::{Ask, Sent, blocks};

/// Breakpoints in one request; automatic caching uses one.
const MOST: usize = 4;

/// Counts the breakpoints of settings and messages.
pub(super) fn check(ask: Ask<'_>) -> Checked {
    let mut found = 0;
    for marker in ask.get("cache_control").into_iter().chain(settings(ask)).chain(messages(ask)) {
        shape(marker)?;
        found += 1;
    }
    if found > MOST {
        return refuse(format!(
            "A maximum of {MOST} blocks with cache_control may be provided. Found {found}."
        ));
    }
    Ok(())
}

fn settings(ask: Ask<'_>) -> impl Iterator<Item = &Value> {
    let system = ask.get("system").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    ask.tools().iter().chain(system).filter_map(marker)
}

fn messages(ask: Ask<'_>) -> impl Iterator<Item = &Value> {
    ask.messages().iter().flat_map(blocks).flat_map(|block| {
        let inner = match block {
            Sent::Json(value) if block.is("tool_result") => value.get("content"),
            Sent::Json(_) | Sent::Text(_) => None,
        };
        let inner = inner.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        block.get("cache_control").into_iter().chain(inner.iter().filter_map(marker))
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
