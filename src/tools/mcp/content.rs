//! Conversion of MCP tool results to the text that the model receives.

use std::fmt::Write as _;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// Returns a result as text. A placeholder names each omitted block that is not text.
pub(super) fn text_of(result: &CallToolResult) -> String {
    let mut text = String::new();
    for block in &result.content {
        if !text.is_empty() {
            text.push('\n');
        }
        add(&mut text, block);
    }
    // Most servers repeat structured content as text.
    if let Some(structured) = result.structured_content.as_ref().filter(|_| text.is_empty()) {
        let _ = write!(text, "{structured}");
    }
    text
}

fn add(text: &mut String, block: &ContentBlock) {
    match block {
        ContentBlock::Text(block) => text.push_str(&block.text),
        ContentBlock::Image(image) => left_out(text, "image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => left_out(text, "recording", &audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text: content, .. } => {
                let _ = write!(text, "[resource {uri}]\n{content}");
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                left_out(text, uri, mime_type.as_deref().unwrap_or("unknown type"), blob);
            }
            _ => text.push_str("[a resource of an unknown type was omitted]"),
        },
        ContentBlock::ResourceLink(link) => {
            let _ = write!(text, "[resource {}: {}]", link.uri, link.name);
        }
        _ => text.push_str("[content of an unknown type was omitted]"),
    }
}

fn left_out(text: &mut String, what: &str, mime_type: &str, base64: &str) {
    let size = base64.len() / 4 * 3;
    let _ = write!(text, "[{what} of {mime_type}, about {size} bytes, was omitted]");
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(result: Value) -> String {
        text_of(&serde_json::from_value(result).unwrap())
    }

    #[test]
    fn texts_are_joined_and_other_content_gets_a_placeholder() {
        let content = json!([
            { "type": "text", "text": "one" },
            { "type": "image", "mimeType": "image/png", "data": "AAAAAAAA" },
            { "type": "audio", "mimeType": "audio/wav", "data": "AAAA" },
            { "type": "resource", "resource": { "uri": "a://b", "text": "two" } },
            { "type": "resource", "resource": { "uri": "a://c", "blob": "AAAA" } },
            { "type": "resource_link", "uri": "a://d", "name": "three" },
        ]);
        let expected = "one\n\
             [image of image/png, about 6 bytes, was omitted]\n\
             [recording of audio/wav, about 3 bytes, was omitted]\n\
             [resource a://b]\ntwo\n\
             [a://c of unknown type, about 3 bytes, was omitted]\n\
             [resource a://d: three]";
        assert_eq!(text(json!({ "content": content })), expected);
    }

    #[test]
    fn structured_content_is_used_if_there_is_no_text() {
        assert_eq!(text(json!({ "content": [], "structuredContent": { "a": 1 } })), r#"{"a":1}"#);
        let both = json!({ "content": [{ "type": "text", "text": "one" }],
                           "structuredContent": { "a": 1 } });
        assert_eq!(text(both), "one");
        assert_eq!(text(json!({ "content": [] })), "");
    }
}
