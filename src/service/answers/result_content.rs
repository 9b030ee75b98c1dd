//! The content of a tool result: validation, and the form in which it is stored.

use serde_json::value::RawValue;

use crate::domain::hidden_text::into_shown;
use crate::domain::media::with_placeholders;
use crate::domain::message::Content;
use crate::domain::plain_message::plain_message;
use crate::domain::storable::storable_json;
use crate::service::content::{self, Block, ContentInput};
use crate::service::error::FieldError;
use crate::service::json::pointer;

/// The largest text of one result, in bytes; the same for tools of the service.
const MAX_TEXT: usize = 100 * 1024;
const MAX_BLOCKS: usize = 100;

/// A valid content of a result.
#[derive(Debug)]
pub(super) struct ResultContent {
    /// The text of all blocks.
    pub(super) text: String,
    /// The blocks, if there is more than one text.
    pub(super) content: Option<String>,
    /// The content of its event, in which media are replaced by their names.
    pub(super) summary: Content,
    /// True if there are images, documents or search results.
    pub(super) has_media: bool,
}

/// Parses the content at this pointer.
pub(super) fn parse(
    raw: Option<&RawValue>,
    pointer: &str,
) -> Result<ResultContent, Vec<FieldError>> {
    let whole = |message: String| vec![FieldError::new(pointer, message)];
    let blocks =
        match raw.map_or(Ok(ContentInput::Text(String::new())), |raw| input(raw, pointer))? {
            ContentInput::Text(text) => return plain(text).map_err(whole),
            blocks @ ContentInput::Blocks(_) => content::parse(blocks, pointer),
        };
    if !blocks.errors.is_empty() {
        return Err(blocks.errors);
    }
    let mut blocks = blocks.blocks;
    if blocks.len() > MAX_BLOCKS {
        return Err(whole(format!("has more than {MAX_BLOCKS} blocks")));
    }
    let parsed = match (blocks.pop(), blocks.is_empty()) {
        (None, _) => plain(String::new()),
        (Some(Block::Text { text }), true) => plain(text),
        (Some(last), _) => {
            blocks.push(last);
            several(&blocks)
        }
    };
    parsed.map_err(whole)
}

fn input(raw: &RawValue, at: &str) -> Result<ContentInput, Vec<FieldError>> {
    let json = storable_json(raw.get());
    let mut deserializer = serde_json::Deserializer::from_str(&json);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let pointer = format!("{at}{}", pointer(error.path()));
        let message = plain_message(&error.into_inner().to_string());
        vec![FieldError::new(pointer, message)]
    })
}

fn plain(text: String) -> Result<ResultContent, String> {
    let text = into_shown(text);
    let summary = Content::text(&text).map_err(|error| error.to_string())?;
    check_size(ResultContent { text, content: None, summary, has_media: false })
}

fn several(blocks: &[Block]) -> Result<ResultContent, String> {
    let text = blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image { .. } | Block::Document { .. } | Block::SearchResult { .. } => None,
    });
    let text = text.collect::<Vec<&str>>().join("\n");
    let text = into_shown(text);
    let content = serde_json::to_string(blocks).map_err(|error| error.to_string())?;
    // The code of a character needs no escape in JSON.
    let content = into_shown(content);
    let summary = Content::parse(content.clone()).and_then(|content| with_placeholders(&content));
    let summary = summary.map_err(|error| error.to_string())?;
    let has_media = blocks.iter().any(Block::is_media);
    check_size(ResultContent { text, content: Some(content), summary, has_media })
}

fn check_size(content: ResultContent) -> Result<ResultContent, String> {
    if content.text.len() <= MAX_TEXT {
        return Ok(content);
    }
    Err(format!("has more than {MAX_TEXT} bytes of text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> Result<String, String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let pointer = |errors: Vec<FieldError>| errors[0].pointer.clone();
        parse(Some(&raw), "").map(|content| content.text).map_err(pointer)
    }

    #[test]
    fn characters_that_cannot_be_stored_are_replaced() {
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
    fn one_text_block_is_stored_as_text() {
        let raw = RawValue::from_string(r#"[{"type":"text","text":"a"}]"#.to_owned()).unwrap();
        let content = parse(Some(&raw), "").unwrap();
        assert_eq!((content.text.as_str(), content.content), ("a", None));
    }

    #[test]
    fn errors_are_reported_by_pointer() {
        let pointer = |json: &str| text(json).unwrap_err();
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
            assert_eq!(pointer(json), expected, "{json}");
        }
        let long = format!("\"{}\"", "x".repeat(MAX_TEXT + 1));
        assert_eq!(pointer(&long), "");
    }
}
