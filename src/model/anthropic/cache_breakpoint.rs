//! Cache breakpoints (`cache_control`).
//!
//! All four breakpoints that a request may have can be used. The first two, after the tools and the
//! system prompt that the session pins, never move and are shared by all sessions with the same
//! settings; requests with tools of their own still read the pinned tools. The third, at the end of
//! the conversation, is placed by the server: it is a member of the request, not of a block, so a
//! block is always sent with the same bytes. The fourth exists only after a long turn, in the block
//! with which the previous request ended.
//!
//! All have the same lifetime: the API requires longer lifetimes before shorter ones.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::domain::prompt_cache::CacheTtl;

/// A cache breakpoint, as the value of `cache_control`.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CacheBreakpoint {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CacheBreakpoint {
    pub(super) const fn new(ttl: CacheTtl) -> Self {
        let ttl = match ttl {
            CacheTtl::FiveMinutes => None,
            CacheTtl::Hour => Some("1h"),
        };
        Self { r#type: "ephemeral", ttl }
    }

    /// The member to insert before the closing brace of a block.
    pub(super) const fn member(self) -> &'static str {
        match self.ttl {
            None => r#","cache_control":{"type":"ephemeral"}"#,
            Some(_) => r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
        }
    }

    /// Adds the breakpoint to the last element of an array of blocks or tools and changes nothing
    /// else. An array that already contains a breakpoint is not changed.
    pub(super) fn at_the_end(self, array: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
        let text = array.get();
        match text.rfind('}') {
            Some(end) if !text.contains(r#""cache_control""#) => {
                let (before, after) = text.split_at(end);
                RawValue::from_string([before, self.member(), after].concat())
            }
            _ => Ok(array.to_owned()),
        }
    }
}

/// Converts a string to the equivalent list of one text block.
pub(super) fn block_of(text: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Serialize)]
    struct Text<'a> {
        r#type: &'static str,
        text: &'a RawValue,
    }
    to_raw_value(&[Text { r#type: "text", text }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_breakpoint(ttl: CacheTtl, array: &str) -> String {
        let array = RawValue::from_string(array.to_owned()).unwrap();
        CacheBreakpoint::new(ttl).at_the_end(&array).unwrap().get().to_owned()
    }

    #[test]
    fn the_last_element_gets_the_breakpoint_and_the_rest_is_unchanged() {
        assert_eq!(
            with_breakpoint(CacheTtl::FiveMinutes, r#"[{"a": {}}, {"b":  "}" } ]"#),
            r#"[{"a": {}}, {"b":  "}" ,"cache_control":{"type":"ephemeral"}} ]"#
        );
        assert_eq!(
            with_breakpoint(CacheTtl::Hour, r#"[{"a":1}]"#),
            r#"[{"a":1,"cache_control":{"type":"ephemeral","ttl":"1h"}}]"#
        );
    }

    #[test]
    fn an_array_that_is_empty_or_has_a_breakpoint_is_not_changed() {
        for array in ["[]", r#"[{"a":1,"cache_control":null},{"b":1}]"#] {
            assert_eq!(with_breakpoint(CacheTtl::Hour, array), array);
        }
    }
}
