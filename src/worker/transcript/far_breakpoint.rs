//! Cache breakpoints far from the end of a request.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Number of blocks before a breakpoint in which the model's server searches for a cached prefix.
const LOOKBACK: usize = 20;

/// The byte range of a message in a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MessageRange {
    /// Its start.
    pub(super) start: usize,
    /// Its end.
    pub(super) end: usize,
}

#[derive(Deserialize)]
struct Blocks<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// The byte position for a cache breakpoint in the last block of the last request, before its
/// closing brace. None if the block cannot carry a breakpoint, or if a breakpoint at the end of the
/// request is close enough to find the prefix of the last request.
///
/// Only the text after the last request is parsed, so that the cost does not grow with the history.
pub(super) fn far_breakpoint(text: &str, last: MessageRange) -> Option<usize> {
    let since = text.get(last.end..)?.strip_prefix(',')?;
    // Each block has at least one brace.
    since.matches('{').nth(LOOKBACK - 1)?;
    let since = format!("[{since}]");
    let since: Vec<Blocks<'_>> = serde_json::from_str(&since).ok()?;
    let blocks: usize = since.iter().map(|message| message.content.len()).sum();
    if blocks < LOOKBACK {
        return None;
    }
    let message = text.get(last.start..last.end)?;
    let last_message: Blocks<'_> = serde_json::from_str(message).ok()?;
    let block = last_message.content.last().filter(|block| can_carry_breakpoint(block))?;
    // Only the ends of its array and of its message follow the block.
    let end = message.rfind(block.get())? + block.get().len();
    Some(last.start + end - "}".len())
}

/// False for thinking, which the API does not allow to carry a breakpoint, and for a block that has
/// one.
fn can_carry_breakpoint(block: &RawValue) -> bool {
    let is_thinking = |kind: &str| matches!(kind, "thinking" | "redacted_thinking");
    !block.get().contains(r#""cache_control""#)
        && serde_json::from_str::<Tag<'_>>(block.get()).is_ok_and(|tag| !is_thinking(&tag.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"type":"text","text":"{[}"}"#;

    fn with_breakpoint(last: &str, since: usize) -> Option<String> {
        let last_message = format!(r#"{{"role":"user","content":[{TEXT}, {last} ]}}"#);
        let blocks = vec![TEXT; since].join(",");
        let text = format!(r#"{last_message},{{"role":"assistant","content":[{blocks}]}}"#);
        let at = far_breakpoint(&text, MessageRange { start: 0, end: last_message.len() })?;
        Some(format!("{}|{}", &text[..at], &text[at..last_message.len()]))
    }

    #[test]
    fn a_marker_is_in_the_last_block_of_the_last_request() {
        let expected =
            format!(r#"{{"role":"user","content":[{TEXT}, {{"type":"text","text":"x"|}} ]}}"#);
        assert_eq!(with_breakpoint(r#"{"type":"text","text":"x"}"#, 20), Some(expected));
    }

    #[test]
    fn a_near_block_and_a_block_that_cannot_carry_a_marker_get_none() {
        assert_eq!(with_breakpoint(TEXT, 19), None);
        for block in [
            r#"{"type":"thinking","thinking":"","signature":"s"}"#,
            r#"{"type":"redacted_thinking","data":"x"}"#,
            r#"{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}"#,
        ] {
            assert_eq!(with_breakpoint(block, 30), None, "{block}");
        }
    }
}
