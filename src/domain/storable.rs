//! Text that the database can store: no NUL character, and no lone surrogate.
//!
//! Postgres refuses byte 0 in a text. It stores JSON with the escapes of NUL and of lone surrogates,
//! but fails when it reads a member of such JSON. Both are replaced by U+FFFD before a text goes to
//! the database and before it goes to the model, so that the two are equal. The check is one scan of
//! the bytes; only a text that needs a replacement is copied.
//!
//! The content of the model's own messages is not changed: it is stored and sent back byte for byte,
//! and no statement reads a member of it.

use std::borrow::Cow;

use serde::Serialize;

/// Returns the text with U+FFFD in place of NUL characters.
pub fn storable_text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// Returns the text with U+FFFD in place of NUL characters.
pub fn without_nul(text: String) -> String {
    if text.contains('\0') { storable_text(&text).into_owned() } else { text }
}

/// Returns the JSON with the escape of U+FFFD in place of the escapes of NUL and lone surrogates.
pub fn storable_json(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return json.into();
    }
    let mut replaced = String::new();
    // The part before `copied` is in `replaced`.
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        let start = at + found;
        let escape = json.get(start + 1..).unwrap_or_default();
        let (is_storable, length) = first_escape(escape);
        at = start + 1 + length;
        if !is_storable {
            replaced.push_str(json.get(copied..start).unwrap_or_default());
            replaced.push_str("\\ufffd");
            copied = at;
        }
    }
    if copied == 0 {
        return json.into();
    }
    replaced.push_str(json.get(copied..).unwrap_or_default());
    replaced.into()
}

/// Serializes a value as JSON that the database can store.
pub fn storable_json_of<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    Ok(into_storable_json(serde_json::to_string(value)?))
}

/// Returns the JSON with the escape of U+FFFD in place of the escapes of NUL and lone surrogates.
pub fn into_storable_json(json: String) -> String {
    match storable_json(&json) {
        Cow::Borrowed(_) => json,
        Cow::Owned(replaced) => replaced,
    }
}

/// Returns whether the database can store an escape sequence, and its length without the first
/// backslash. A pair of surrogates is one sequence.
fn first_escape(escape: &str) -> (bool, usize) {
    match unit(escape) {
        None => (true, escape.chars().next().map_or(0, char::len_utf8)),
        Some(0 | 0xdc00..=0xdfff) => (false, 5),
        Some(0xd800..=0xdbff) => {
            let next = escape.get(5..).and_then(|next| next.strip_prefix('\\')).and_then(unit);
            if matches!(next, Some(0xdc00..=0xdfff)) { (true, 11) } else { (false, 5) }
        }
        Some(_) => (true, 5),
    }
}

/// Returns the UTF-16 unit of an escape without its backslash.
fn unit(escape: &str) -> Option<u16> {
    u16::from_str_radix(escape.strip_prefix('u')?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_in_a_text_is_replaced() {
        assert_eq!(storable_text("a\0\0b"), "a\u{fffd}\u{fffd}b");
        assert!(matches!(storable_text("a\u{1}b"), Cow::Borrowed("a\u{1}b")));
        assert_eq!(without_nul("a\0b".to_owned()), "a\u{fffd}b");
    }

    #[test]
    fn escapes_of_nul_and_lone_surrogates_in_json_are_replaced() {
        for (json, expected) in [
            (r#""a\u0000b""#, r#""a\ufffdb""#),
            (r#""\u0000\u0000""#, r#""\ufffd\ufffd""#),
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\uD800\u0041""#, r#""\ufffd\u0041""#),
            (r#""\udc00\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#"{"a\u0000":"é\\\u0000\ud800"}"#, r#"{"a\ufffd":"é\\\ufffd\ufffd"}"#),
        ] {
            assert_eq!(storable_json(json), expected, "{json}");
        }
    }

    #[test]
    fn other_json_is_not_copied() {
        for json in
            [r#""\\u0000 \"\u00e9é\"""#, r#""\u0001\n\ud83d\ude00""#, r#""\\\\ud800""#, "", r"\"]
        {
            assert!(matches!(storable_json(json), Cow::Borrowed(it) if it == json), "{json}");
        }
    }
}
