//! Where the last request ended, and how far that is from the end.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Blocks that the model's side looks back at from a mark for what it has cached.
const LOOKBACK: usize = 20;

/// A message in the text of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    /// Where it begins.
    pub(super) start: usize,
    /// Where it ends.
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

/// The place inside the last block of a message, before its closing brace, if the block can carry
/// a mark and so many have come since that one at the end would not reach it.
///
/// Only what has come since the last request is looked at, so that the cost does not grow with
/// the history.
pub(super) fn far_mark(text: &str, last: Span) -> Option<usize> {
    let since = text.get(last.end..)?.strip_prefix(',')?;
    // A block has a brace at least.
    since.matches('{').nth(LOOKBACK - 1)?;
    let since = format!("[{since}]");
    let since: Vec<Blocks<'_>> = serde_json::from_str(&since).ok()?;
    let blocks: usize = since.iter().map(|message| message.content.len()).sum();
    if blocks < LOOKBACK {
        return None;
    }
    let message = text.get(last.start..last.end)?;
    let asked: Blocks<'_> = serde_json::from_str(message).ok()?;
    let block = asked.content.last().filter(|block| takes_a_mark(block))?;
    // Behind the block there are only the ends of its array and of its message.
    let end = message.rfind(block.get())? + block.get().len();
    Some(last.start + end - "}".len())
}

/// Thinking takes none, and what has one already must not get a second.
fn takes_a_mark(block: &RawValue) -> bool {
    let is_thinking = |kind: &str| matches!(kind, "thinking" | "redacted_thinking");
    !block.get().contains(r#""cache_control""#)
        && serde_json::from_str::<Tag<'_>>(block.get()).is_ok_and(|tag| !is_thinking(&tag.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"type":"text","text":"{[}"}"#;

    fn marked(last: &str, since: usize) -> Option<String> {
        let asked = format!(r#"{{"role":"user","content":[{TEXT}, {last} ]}}"#);
        let blocks = vec![TEXT; since].join(",");
        let text = format!(r#"{asked},{{"role":"assistant","content":[{blocks}]}}"#);
        let at = far_mark(&text, Span { start: 0, end: asked.len() })?;
        Some(format!("{}|{}", &text[..at], &text[at..asked.len()]))
    }

    #[test]
    fn a_mark_stands_in_the_last_block_of_the_last_request() {
        let expected =
            format!(r#"{{"role":"user","content":[{TEXT}, {{"type":"text","text":"x"|}} ]}}"#);
        assert_eq!(marked(r#"{"type":"text","text":"x"}"#, 20), Some(expected));
    }

    #[test]
    fn what_the_end_reaches_and_what_takes_no_mark_gets_none() {
        assert_eq!(marked(TEXT, 19), None);
        for block in [
            r#"{"type":"thinking","thinking":"","signature":"s"}"#,
            r#"{"type":"redacted_thinking","data":"x"}"#,
            r#"{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}"#,
        ] {
            assert_eq!(marked(block, 30), None, "{block}");
        }
    }
}
