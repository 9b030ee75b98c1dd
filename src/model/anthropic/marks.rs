//! The marks that ask for caching.
//!
//! Three at most, of the four that a request may have. One at the end of what the session pinned
//! (the system prompt, or without one the tools) never moves, and is shared by all sessions of the
//! same settings. The one at the end of the conversation is left to the server: it is a member of
//! the request and not of a block, so that no block that was sent is ever sent otherwise. Only
//! after a long turn there is one more, in a block: where the request before ended.
//!
//! All have the same lifetime, so that none can stand before a longer one.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::domain::prompt_cache::CacheTtl;

/// What marks a place, as the value of `cache_control`.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Mark {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl Mark {
    pub(super) const fn new(ttl: CacheTtl) -> Self {
        let ttl = match ttl {
            CacheTtl::FiveMinutes => None,
            CacheTtl::Hour => Some("1h"),
        };
        Self { r#type: "ephemeral", ttl }
    }

    /// The member of a block, to stand before its closing brace.
    pub(super) const fn member(self) -> &'static str {
        match self.ttl {
            None => r#","cache_control":{"type":"ephemeral"}"#,
            Some(_) => r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
        }
    }

    /// An array of blocks or tools whose last one is marked, all else as it is. What is marked
    /// already stays as it is.
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

/// A text as the one block that it stands for.
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

    fn marked(ttl: CacheTtl, array: &str) -> String {
        let array = RawValue::from_string(array.to_owned()).unwrap();
        Mark::new(ttl).at_the_end(&array).unwrap().get().to_owned()
    }

    #[test]
    fn the_last_of_an_array_is_marked_and_all_else_is_as_it_was() {
        assert_eq!(
            marked(CacheTtl::FiveMinutes, r#"[{"a": {}}, {"b":  "}" } ]"#),
            r#"[{"a": {}}, {"b":  "}" ,"cache_control":{"type":"ephemeral"}} ]"#
        );
        assert_eq!(
            marked(CacheTtl::Hour, r#"[{"a":1}]"#),
            r#"[{"a":1,"cache_control":{"type":"ephemeral","ttl":"1h"}}]"#
        );
    }

    #[test]
    fn what_is_empty_or_marked_already_stays_as_it_is() {
        for array in ["[]", r#"[{"a":1,"cache_control":null},{"b":1}]"#] {
            assert_eq!(marked(CacheTtl::Hour, array), array);
        }
    }
}
