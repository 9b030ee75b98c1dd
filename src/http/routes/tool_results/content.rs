//! What a result may hold, and what is kept of it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::message::{BadContent, Content};
use crate::http::json_body::{object, objects};

/// The text of one result, in bytes: as much as a tool of the service may return.
const MAX_TEXT: usize = 100 * 1024;
const MAX_BLOCKS: usize = 100;

/// A text, or blocks.
#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "expected a string or an array of text and image blocks")]
pub(super) enum ResultContent {
    /// One text.
    Text(String),
    /// Blocks.
    Blocks(#[serde(deserialize_with = "objects")] Vec<ResultBlock>),
}

/// A block of a result.
#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ResultBlock {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Where it is.
        #[serde(deserialize_with = "object")]
        source: ImageSource,
    },
}

/// Where an image is.
#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ImageSource {
    /// Here.
    Base64 {
        /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        media_type: String,
        /// The bytes in base64.
        data: String,
    },
    /// Where the model's side fetches it.
    Url {
        /// An `https` URL.
        url: String,
    },
}

/// A result as it is kept.
#[derive(Debug)]
pub(super) struct Read {
    /// All text of it.
    pub(super) text: String,
    /// Its blocks, if it is more than a text.
    pub(super) content: Option<String>,
    /// What its event tells: images are only named.
    pub(super) told: Content,
    /// Whether it has an image.
    pub(super) has_image: bool,
}

/// A place in the content, and what is wrong there.
type Problem = (String, String);

/// Reads a result.
pub(super) fn read(raw: Option<&RawValue>) -> Result<Read, Problem> {
    let whole = |message: String| (String::new(), message);
    let content: ResultContent = match raw {
        None => ResultContent::Text(String::new()),
        Some(raw) => {
            serde_json::from_str(&mended(raw.get())).map_err(|error| whole(error.to_string()))?
        }
    };
    let mut blocks = match content {
        ResultContent::Text(text) => return plain(text),
        ResultContent::Blocks(blocks) => blocks,
    };
    if blocks.len() > MAX_BLOCKS {
        return Err(whole(format!("has more than {MAX_BLOCKS} blocks")));
    }
    for (index, block) in blocks.iter().enumerate() {
        check(block).map_err(|(place, why)| (format!("/{index}{place}"), why.to_owned()))?;
    }
    match (blocks.pop(), blocks.is_empty()) {
        (None, _) => plain(String::new()),
        (Some(ResultBlock::Text { text }), true) => plain(text),
        (Some(last), _) => {
            blocks.push(last);
            more(&blocks)
        }
    }
}

fn plain(text: String) -> Result<Read, Problem> {
    let told = Content::text(&text).map_err(unwritten)?;
    bounded(Read { text, content: None, told, has_image: false })
}

fn more(blocks: &[ResultBlock]) -> Result<Read, Problem> {
    let text = blocks.iter().filter_map(|block| match block {
        ResultBlock::Text { text } => Some(text.as_str()),
        ResultBlock::Image { .. } => None,
    });
    let text: Vec<&str> = text.collect();
    let told: Vec<_> =
        blocks.iter().map(|block| json!({ "type": "text", "text": told(block) })).collect();
    let content = serde_json::to_string(blocks).map_err(|error| unwritten(error.into()))?;
    let told = Content::parse(json!(told).to_string()).map_err(unwritten)?;
    let has_image = blocks.iter().any(|block| matches!(block, ResultBlock::Image { .. }));
    bounded(Read { text: text.join("\n"), content: Some(content), told, has_image })
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn unwritten(error: BadContent) -> Problem {
    (String::new(), error.to_string())
}

fn bounded(read: Read) -> Result<Read, Problem> {
    if read.text.len() <= MAX_TEXT {
        return Ok(read);
    }
    Err((String::new(), format!("has more than {MAX_TEXT} bytes of text")))
}

/// A block as its event tells it.
fn told(block: &ResultBlock) -> Cow<'_, str> {
    match block {
        ResultBlock::Text { text } => text.into(),
        ResultBlock::Image { source: ImageSource::Base64 { media_type, data } } => {
            format!("[{media_type}, {} bytes]", data.len() / 4 * 3).into()
        }
        ResultBlock::Image { source: ImageSource::Url { url } } => format!("[image {url}]").into(),
    }
}

/// What the model would not take.
fn check(block: &ResultBlock) -> Result<(), (&'static str, &'static str)> {
    const KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    match block {
        ResultBlock::Text { text } if text.trim().is_empty() => Err(("/text", "is blank")),
        ResultBlock::Text { .. } => Ok(()),
        ResultBlock::Image { source } => match source {
            ImageSource::Base64 { media_type, .. } if !KINDS.contains(&media_type.as_str()) => {
                Err(("/source/media_type", "is not image/png, image/jpeg, image/gif or image/webp"))
            }
            ImageSource::Base64 { data, .. } if !is_base64(data) => {
                Err(("/source/data", "is not base64"))
            }
            ImageSource::Base64 { media_type, data } if !begins_as(media_type, data) => {
                Err(("/source/data", "is not an image of this type"))
            }
            ImageSource::Url { url } if !url.starts_with("https://") => {
                Err(("/source/url", "is not an https URL"))
            }
            ImageSource::Base64 { .. } | ImageSource::Url { .. } => Ok(()),
        },
    }
}

fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !digits.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - digits.len() <= 2
        && digits.bytes().all(is_digit)
}

/// Whether base64 begins with the signature of a kind of image.
fn begins_as(media_type: &str, data: &str) -> bool {
    match media_type {
        "image/png" => data.starts_with("iVBORw0KGgo"),
        "image/jpeg" => data.starts_with("/9j/"),
        "image/gif" => data.starts_with("R0lGOD"),
        // `RIFF`, the length, `WEBP`.
        "image/webp" => data.starts_with("UklGR") && data.get(12..16) == Some("RUJQ"),
        _ => false,
    }
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

    fn text(json: &str) -> Result<String, Problem> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        read(Some(&raw)).map(|read| read.text)
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
        let read = read(Some(&raw)).unwrap();
        assert_eq!((read.text.as_str(), read.content), ("a", None));
    }

    #[test]
    fn what_the_model_would_not_take_is_pointed_at() {
        let image = |kind: &str, data: &str| {
            format!(
                r#"[{{"type":"text","text":"a"}},{{"type":"image","source":{{"type":"base64","media_type":"{kind}","data":"{data}"}}}}]"#
            )
        };
        let place = |json: &str| text(json).unwrap_err().0;
        assert_eq!(place(r#"[{"type":"text","text":" "}]"#), "/0/text");
        assert_eq!(place(&image("image/svg+xml", "AAAA")), "/1/source/media_type");
        assert_eq!(place(&image("image/png", "AAA")), "/1/source/data");
        assert_eq!(place(&image("image/png", "A===")), "/1/source/data");
        assert_eq!(place(&image("image/png", "AA\\n=")), "/1/source/data");
        assert_eq!(place(&image("image/png", "AAA=")), "/1/source/data");
        assert_eq!(place(&image("image/jpeg", "iVBORw0KGgo=")), "/1/source/data");
        let images = [
            ("image/png", "iVBORw0KGgo="),
            ("image/jpeg", "/9j/4AAQ"),
            ("image/gif", "R0lGODlh"),
            ("image/webp", "UklGRiQAAABXRUJQ"),
        ];
        for (kind, data) in images {
            assert_eq!(text(&image(kind, data)), Ok("a".to_owned()), "{kind}");
        }
        for json in ["1", "null", "{}", r#"[{"type":"video"}]"#, r#"[{"type":"text"}]"#] {
            assert_eq!(place(json), "", "{json}");
        }
        let members = r#"[{"type":"image","source":["url","https://example.org/a.png"]}]"#;
        for json in [r#"[["text","a"]]"#, members] {
            assert_eq!(place(json), "", "{json}");
        }
        let long = format!("\"{}\"", "x".repeat(MAX_TEXT + 1));
        assert_eq!(place(&long), "");
    }
}
