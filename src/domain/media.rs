//! Short text placeholders for images, documents and search results.
//!
//! The history stores these blocks byte for byte. An event contains only the placeholder, because
//! events are stored and sent many times, and one image may be larger than the rest of a session.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::message::{BadContent, Content};

#[derive(Deserialize)]
struct Media<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    media_type: Cow<'a, str>,
    #[serde(borrow, default)]
    data: Cow<'a, str>,
    #[serde(borrow, default)]
    url: Cow<'a, str>,
    #[serde(borrow, default)]
    file_id: Cow<'a, str>,
}

/// Returns the placeholder of an image, a document or a search result; none for other blocks.
pub fn placeholder(block: &RawValue) -> Result<Option<String>, BadContent> {
    let media: Media<'_> = serde_json::from_str(block.get())?;
    let source = media.source.map_or("null", RawValue::get);
    let title = media.title.map(|title| format!(" {title:?}")).unwrap_or_default();
    Ok(match media.kind.as_ref() {
        kind @ ("image" | "document") => {
            Some(format!("[{}]", of_source(kind, &title, &serde_json::from_str(source)?)))
        }
        "search_result" => {
            let source: Cow<'_, str> = serde_json::from_str(source)?;
            Some(format!("[search result{title}, {source}]"))
        }
        _ => None,
    })
}

fn of_source(kind: &str, title: &str, source: &Source<'_>) -> String {
    let Source { media_type, data, url, file_id, .. } = source;
    match source.kind.as_ref() {
        "base64" => {
            let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
            let bytes = (data.len() / 4 * 3).saturating_sub(padding);
            format!("{media_type}{title}, {bytes} bytes")
        }
        "text" => format!("{media_type}{title}, {} bytes", data.len()),
        "url" => format!("{kind}{title} {url}"),
        "file" => format!("{kind}{title} {file_id}"),
        _ => format!("{kind}{title}"),
    }
}

/// Returns the placeholder as a text block.
pub fn placeholder_block(block: &RawValue) -> Result<Option<Box<RawValue>>, BadContent> {
    let text = placeholder(block)?.map(|name| json!({ "type": "text", "text": name }));
    Ok(text.map(|text| to_raw_value(&text)).transpose()?)
}

/// Returns the content for events: placeholders for media blocks, all other blocks byte for byte.
pub fn with_placeholders(content: &Content) -> Result<Content, BadContent> {
    let mut blocks: Vec<Cow<'_, RawValue>> = Vec::new();
    let mut is_changed = false;
    for block in content.blocks()? {
        let named = placeholder_block(block.raw)?;
        is_changed |= named.is_some();
        blocks.push(named.map_or(Cow::Borrowed(block.raw), Cow::Owned));
    }
    if !is_changed {
        return Ok(content.clone());
    }
    Content::from_blocks(blocks.iter().map(AsRef::as_ref))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_as(block: &serde_json::Value) -> Option<String> {
        placeholder(&to_raw_value(block).unwrap()).unwrap()
    }

    #[test]
    fn each_kind_has_a_name() {
        let base64 = |data: &str| json!({ "type": "base64", "media_type": "a/b", "data": data });
        let table = [
            (json!({ "type": "text", "text": "a" }), None),
            (json!({ "type": "tool_result", "tool_use_id": "a", "content": "b" }), None),
            (json!({ "type": "image", "source": base64("AAA=") }), Some("[a/b, 2 bytes]")),
            (
                json!({ "type": "image", "source": { "type": "url", "url": "https://a.b/c" } }),
                Some("[image https://a.b/c]"),
            ),
            (
                json!({ "type": "document", "title": "Plan", "source": base64("AAAA") }),
                Some(r#"[a/b "Plan", 3 bytes]"#),
            ),
            (
                json!({ "type": "document", "source":
                    { "type": "text", "media_type": "text/plain", "data": "four" } }),
                Some("[text/plain, 4 bytes]"),
            ),
            (
                json!({ "type": "document", "title": "T", "source":
                    { "type": "content", "content": [] } }),
                Some(r#"[document "T"]"#),
            ),
            (
                json!({ "type": "search_result", "source": "wiki/a", "title": "A", "content": [] }),
                Some(r#"[search result "A", wiki/a]"#),
            ),
        ];
        for (block, name) in table {
            assert_eq!(named_as(&block).as_deref(), name, "{block}");
        }
    }

    #[test]
    fn an_event_replaces_media_and_keeps_the_other_blocks() {
        let text = r#"[{"type":"text",  "text":"a\u00e9"}]"#;
        let content = Content::parse(text.to_owned()).unwrap();
        assert_eq!(with_placeholders(&content).unwrap().as_str(), text);
        let with_image = concat!(
            r#"[{"type":"text",  "text":"a\u00e9"},"#,
            r#"{"type":"image","source":{"type":"url","url":"https://a"}}]"#,
        );
        let content = Content::parse(with_image.to_owned()).unwrap();
        assert_eq!(
            with_placeholders(&content).unwrap().as_str(),
            concat!(
                r#"[{"type":"text",  "text":"a\u00e9"},"#,
                r#"{"type":"text","text":"[image https://a]"}]"#,
            )
        );
    }
}
