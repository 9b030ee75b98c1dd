//! The part of an interrupted reply that enters the history: the text that its reader saw, and what
//! belongs to that text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::message::{BadContent, Block, Content, View};

/// The blocks to keep of the complete blocks and unfinished texts of a reply, or none if it has no
/// text.
///
/// Kept blocks are never changed. Kept are texts that are not blank, calls of server tools together
/// with their results, and signed thinking before any of these. Left out are calls, which nothing
/// will answer, and blocks of other types, which may depend on blocks that were not received. A
/// signature may cover the blocks before it, so thinking after a block that is left out is left out
/// as well.
pub fn kept_part(content: &Content) -> Result<Option<Content>, BadContent> {
    let blocks = content.blocks()?;
    let mut kept: Vec<&RawValue> = Vec::new();
    // Up to the last block that is not thinking: a message cannot end with thinking.
    let mut length = 0;
    let (mut has_text, mut is_gapless) = (false, true);
    for (at, block) in blocks.iter().enumerate() {
        let is_kept = match &block.view {
            View::Text(text) => !text.trim().is_empty(),
            View::Thinking(_) => is_gapless && is_signed(block.raw),
            View::RedactedThinking => is_gapless,
            View::ServerToolUse { id } => {
                blocks.iter().skip(at).any(|later| answered_call(later) == Some(id.as_ref()))
            }
            // The call is in this reply, or in the paused reply that this one continues.
            View::Other { tool_use_id } => tool_use_id.is_some(),
            View::ToolUse(_) | View::ToolResult { .. } => false,
        };
        if !is_kept {
            is_gapless = false;
            continue;
        }
        kept.push(block.raw);
        has_text |= matches!(block.view, View::Text(_));
        if !matches!(block.view, View::Thinking(_) | View::RedactedThinking) {
            length = kept.len();
        }
    }
    kept.truncate(length);
    has_text.then(|| Content::from_blocks(kept)).transpose()
}

/// The call that a block answers, if the block is the result of a server tool.
fn answered_call<'a>(block: &'a Block<'_>) -> Option<&'a str> {
    match &block.view {
        View::Other { tool_use_id } => tool_use_id.as_deref(),
        View::Text(_)
        | View::Thinking(_)
        | View::RedactedThinking
        | View::ToolUse(_)
        | View::ToolResult { .. }
        | View::ServerToolUse { .. } => None,
    }
}

/// True if a thinking block has its signature, which the model sends last.
fn is_signed(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Signed<'a> {
        #[serde(borrow, default)]
        signature: Option<Cow<'a, str>>,
    }
    let read = serde_json::from_str::<Signed<'_>>(raw.get());
    read.is_ok_and(|block| block.signature.is_some_and(|signature| !signature.is_empty()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::agent::repair::{Line, repair};
    use crate::domain::message::Role;

    const TEXT: &str = r#"{"type":"text","text":"Hello"}"#;
    const CITED: &str = r#"{"type":"text","text":"a","citations":[{"type":"page_location"}]}"#;
    const BLANK: &str = r#"{"type":"text","text":" \n"}"#;
    const THINKING: &str = r#"{"type":"thinking","thinking":"Hm.","signature":"abc"}"#;
    const UNSIGNED: &str = r#"{"type":"thinking","thinking":"Hm.","signature":""}"#;
    const REDACTED: &str = r#"{"type":"redacted_thinking","data":"abc"}"#;
    const CALL: &str = r#"{"type":"tool_use","id":"toolu_1","name":"f","input":{}}"#;
    const SEARCH: &str =
        r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#;
    const FOUND: &str =
        r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}"#;
    const SUMMARY: &str = r#"{"type":"compaction","content":"Before."}"#;
    const ALL: [&str; 10] =
        [TEXT, CITED, BLANK, THINKING, UNSIGNED, REDACTED, CALL, SEARCH, FOUND, SUMMARY];

    fn content(blocks: &[&str]) -> Content {
        Content::parse(format!("[{}]", blocks.join(","))).unwrap()
    }

    fn kept(blocks: &[&str]) -> Option<Vec<String>> {
        let kept = kept_part(&content(blocks)).unwrap()?;
        Some(kept.blocks().unwrap().iter().map(|block| block.raw.get().to_owned()).collect())
    }

    #[test]
    fn the_text_is_kept_with_the_thinking_and_the_searches_before_it() {
        let blocks = [THINKING, REDACTED, SEARCH, FOUND, THINKING, CITED, TEXT];
        assert_eq!(kept(&blocks).unwrap(), blocks);
    }

    #[test]
    fn an_interrupted_reply_without_text_leaves_nothing() {
        for blocks in [
            &[][..],
            &[BLANK],
            &[THINKING],
            &[THINKING, CALL],
            &[REDACTED, BLANK],
            &[SEARCH, FOUND],
            &[SUMMARY],
        ] {
            assert_eq!(kept(blocks), None, "{blocks:?}");
        }
    }

    #[test]
    fn calls_open_searches_and_unsigned_thinking_are_left_out() {
        assert_eq!(kept(&[TEXT, CALL]).unwrap(), [TEXT]);
        assert_eq!(kept(&[TEXT, CALL, CALL]).unwrap(), [TEXT]);
        assert_eq!(kept(&[TEXT, SEARCH]).unwrap(), [TEXT]);
        assert_eq!(kept(&[UNSIGNED, TEXT]).unwrap(), [TEXT]);
        assert_eq!(kept(&[SUMMARY, TEXT]).unwrap(), [TEXT]);
        assert_eq!(kept(&[TEXT, BLANK, CITED]).unwrap(), [TEXT, CITED]);
    }

    #[test]
    fn thinking_is_left_out_after_a_gap_and_at_the_end() {
        assert_eq!(kept(&[TEXT, THINKING]).unwrap(), [TEXT]);
        assert_eq!(kept(&[TEXT, THINKING, CALL, REDACTED]).unwrap(), [TEXT]);
        assert_eq!(kept(&[CALL, THINKING, TEXT]).unwrap(), [TEXT]);
        assert_eq!(kept(&[THINKING, CALL, THINKING, TEXT]).unwrap(), [THINKING, TEXT]);
    }

    #[test]
    fn a_result_that_continues_a_paused_reply_is_kept() {
        assert_eq!(kept(&[FOUND, TEXT]).unwrap(), [FOUND, TEXT]);
        assert_eq!(kept(&[TEXT, FOUND, SEARCH]).unwrap(), [TEXT, FOUND]);
    }

    proptest! {
        #[test]
        fn a_history_with_an_interrupted_reply_needs_no_repair(
            blocks in prop::collection::vec(prop::sample::select(ALL.to_vec()), 0..8),
        ) {
            let mut lines = vec![Line { role: Role::User, content: format!("[{TEXT}]").into() }];
            let kept = kept_part(&content(&blocks)).unwrap();
            let kept = kept.map(|content| content.as_str().to_owned());
            // Searches have unique ids.
            let searches = blocks.iter().filter(|block| **block == SEARCH).count();
            prop_assume!(searches < 2);
            lines.extend(kept.map(|text| Line { role: Role::Assistant, content: text.into() }));
            lines.push(Line { role: Role::User, content: format!("[{TEXT}]").into() });
            let repaired = repair(&lines, true);
            let count = repaired.map_or(0, |repaired| repaired.repairs.len());
            prop_assert_eq!(count, 0, "{:?}", blocks);
        }
    }
}
