//! What a result may hold, and what is kept of it.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::domain::media::told;
use crate::domain::message::{BadContent, Content};
use crate::http::error::FieldError;
use crate::service::content::{self, Block, ContentInput};
use crate::service::json::{pointer, without_position};

/// The text of one result, in bytes: as much as a tool of the service may return.
const MAX_TEXT: usize = 100 * 1024;
const MAX_BLOCKS: usize = 100;

/// A result as it is kept.
#[derive(Debug)]
pub(super) struct Read {
    /// All text of it.
    pub(super) text: String,
    /// Its blocks, if it is more than a text.
    pub(super) content: Option<String>,
    /// What its event tells: images and the like are only named.
    pub(super) told: Content,
    /// Whether it has anything but text.
    pub(super) has_media: bool,
}

/// Reads a result that stands at this place.
pub(super) fn read(raw: Option<&RawValue>, at: &str) -> Result<Read, Vec<FieldError>> {
    let whole = |message: String| vec![FieldError { pointer: at.to_owned(), message }];
    let blocks = match raw.map_or(Ok(ContentInput::Text(String::new())), |raw| given(raw, at))? {
        ContentInput::Text(text) => return plain(text).map_err(whole),
        given @ ContentInput::Blocks(_) => content::parse(given, at),
    };
    if !blocks.errors.is_empty() {
        return Err(blocks.errors);
    }
    let mut blocks = blocks.blocks;
    if blocks.len() > MAX_BLOCKS {
        return Err(whole(format!("has more than {MAX_BLOCKS} blocks")));
    }
    let read = match (blocks.pop(), blocks.is_empty()) {
        (None, _) => plain(String::new()),
        (Some(Block::Text { text }), true) => plain(text),
        (Some(last), _) => {
            blocks.push(last);
            more(&blocks)
        }
    };
    read.map_err(whole)
}

fn given(raw: &RawValue, at: &str) -> Result<ContentInput, Vec<FieldError>> {
    let json = mended(raw.get());
    let mut deserializer = serde_json::Deserializer::from_str(&json);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let pointer = format!("{at}{}", pointer(error.path()));
        let message = without_position(&error.into_inner().to_string());
        vec![FieldError { pointer, message }]
    })
}

fn plain(text: String) -> Result<Read, String> {
    let told = Content::text(&text).map_err(unwritten)?;
    bounded(Read { text, content: None, told, has_media: false })
}

fn more(blocks: &[Block]) -> Result<Read, String> {
    let text = blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image { .. } | Block::Document { .. } | Block::SearchResult { .. } => None,
    });
    let text: Vec<&str> = text.collect();
    let content = serde_json::to_string(blocks).map_err(|error| unwritten(error.into()))?;
    let told = Content::parse(content.clone()).and_then(|content| told(&content));
    let has_media = blocks.iter().any(Block::is_media);
    let told = told.map_err(unwritten)?;
    bounded(Read { text: text.join("\n"), content: Some(content), told, has_media })
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn unwritten(error: BadContent) -> String {
    error.to_string()
}

fn bounded(read: Read) -> Result<Read, String> {
    if read.text.len() <= MAX_TEXT {
        return Ok(read);
    }
    Err(format!("has more than {MAX_TEXT} bytes of text"))
}

/// JSON whose texts can be read and kept: NUL and halves of characters become U+FFFD.
fn mended(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return json.into();
    }
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, escape)) = rest.split_once('\\') {
        mended.push_str(before);
        let (kept, len) = match unit(escape) {
            None => (true, escape.chars().next().map_or(0, char::len_utf8)),
            Some(0 | 0xdc00..=0xdfff) => (false, 5),
            Some(0xd800..=0xdbff) => match escape.get(5..).and_then(|next| next.strip_prefix('\\'))
            {
                Some(next) if matches!(unit(next), Some(0xdc00..=0xdfff)) => (true, 11),
                Some(_) | None => (false, 5),
            },
            Some(_) => (true, 5),
        };
        let (escaped, behind) = escape.split_at_checked(len).unwrap_or((escape, ""));
        mended.push('\\');
        mended.push_str(if kept { escaped } else { "ufffd" });
        rest = behind;
    }
    mended.push_str(rest);
    mended.into()
}

/// The unit that an escape stands for, without its backslash.
fn unit(escape: &str) -> Option<u16> {
    u16::from_str_radix(escape.strip_prefix('u')?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> Result<String, String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let place = |errors: Vec<FieldError>| errors[0].pointer.clone();
        read(Some(&raw), "").map(|read| read.text).map_err(place)
    }

    #[test]
    fn what_cannot_be_kept_is_replaced() {
        let table = [
            (r#""a\u0000b""#, "a\u{fffd}b"),
            (r#""\ud800""#, "\u{fffd}"),
            (r#""\ud800\u0041""#, "\u{fffd}A"),
            (r#""\udc00\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\u0000 \"\u00e9é\"""#, "\\u0000 \"éé\""),
            (r#"[{"type":"text","text":"\ud800\n"}]"#, "\u{fffd}\n"),
        ];
        for (json, expected) in table {
            assert_eq!(text(json), Ok(expected.to_owned()), "{json}");
        }
    }

    #[test]
    fn one_block_of_text_is_a_text() {
        let raw = RawValue::from_string(r#"[{"type":"text","text":"a"}]"#.to_owned()).unwrap();
        let read = read(Some(&raw), "").unwrap();
        assert_eq!((read.text.as_str(), read.content), ("a", None));
    }

    #[test]
    fn what_does_not_fit_is_pointed_at() {
        let place = |json: &str| text(json).unwrap_err();
        for (json, expected) in [
            ("1", ""),
            ("null", ""),
            ("{}", ""),
            (r#"[{"type":"video"}]"#, "/0/type"),
            (r#"[{"type":"text"}]"#, "/0/text"),
            (r#"[{"type":"text","text":"a"},{"type":"text","text":" "}]"#, "/1/text"),
            (r#"[{"type":"text","text":"a","size":1}]"#, "/0/size"),
            (r#"[{"type":"image","source":{"type":"base64","data":1}}]"#, "/0/source/data"),
            (r#"[["text","a"]]"#, "/0"),
            (r#"[{"type":"image","source":["url","https://example.org/a.png"]}]"#, "/0/source"),
        ] {
            assert_eq!(place(json), expected, "{json}");
        }
        let long = format!("\"{}\"", "x".repeat(MAX_TEXT + 1));
        assert_eq!(place(&long), "");
    }
}
