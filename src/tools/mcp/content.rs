//! Conversion of MCP tool results to the text and the images that the model receives.

use std::fmt::Write as _;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::domain::image::{Image, decode};
use crate::tools::output::Output;

/// Returns a result as text, which names each image in its place, and the images, which an error does not
/// have. A placeholder names each omitted block, and the reason.
pub(super) fn output_of(result: &CallToolResult) -> Output {
    let mut output = Output::default();
    for block in &result.content {
        if !output.text.is_empty() {
            output.text.push('\n');
        }
        add(&mut output, block, result.is_error != Some(true));
    }
    // Most servers repeat structured content as text.
    if let Some(structured) = result.structured_content.as_ref().filter(|_| output.text.is_empty())
    {
        let _ = write!(output.text, "{structured}");
    }
    output
}

fn add(output: &mut Output, block: &ContentBlock, keeps_images: bool) {
    let text = &mut output.text;
    match block {
        ContentBlock::Text(block) => text.push_str(&block.text),
        ContentBlock::Image(image) if keeps_images => {
            add_image(output, "image", &image.mime_type, &image.data);
        }
        ContentBlock::Image(image) => left_out(text, "image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => left_out(text, "recording", &audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text: content, .. } => {
                let _ = write!(text, "[resource {uri}]\n{content}");
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime_type = mime_type.as_deref().unwrap_or("unknown type");
                if keeps_images && mime_type.starts_with("image/") {
                    let _ = writeln!(text, "[resource {uri}]");
                    add_image(output, uri, mime_type, blob);
                } else {
                    left_out(text, uri, mime_type, blob);
                }
            }
            _ => text.push_str("[a resource of an unknown type was omitted]"),
        },
        ContentBlock::ResourceLink(link) => {
            let _ = write!(text, "[resource {}: {}]", link.uri, link.name);
        }
        _ => text.push_str("[content of an unknown type was omitted]"),
    }
}

/// The declared type is not relied on: servers confuse JPEG and PNG, which the model would refuse.
fn add_image(output: &mut Output, what: &str, mime_type: &str, base64: &str) {
    match decode(base64).and_then(|bytes| Image::read(&bytes)) {
        Ok(image) => {
            let _ = write!(output.text, "{image}");
            output.images.push(image);
        }
        Err(problem) => {
            let (text, size) = (&mut output.text, size_of(base64));
            let _ = write!(
                text,
                "[{what} of {mime_type}, about {size} bytes, was omitted: it {problem}]"
            );
        }
    }
}

fn left_out(text: &mut String, what: &str, mime_type: &str, base64: &str) {
    let size = size_of(base64);
    let _ = write!(text, "[{what} of {mime_type}, about {size} bytes, was omitted]");
}

/// The approximate size of what is encoded, in bytes.
fn size_of(base64: &str) -> usize {
    base64.len() / 4 * 3
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    fn text(result: Value) -> String {
        output_of(&serde_json::from_value(result).unwrap()).text
    }

    #[test]
    fn texts_are_joined_and_other_content_gets_a_placeholder() {
        let content = json!([
            { "type": "text", "text": "one" },
            { "type": "image", "mimeType": "image/png", "data": "AAAAAAAA" },
            { "type": "image", "mimeType": "image/png", "data": "no!" },
            { "type": "audio", "mimeType": "audio/wav", "data": "AAAA" },
            { "type": "resource", "resource": { "uri": "a://b", "text": "two" } },
            { "type": "resource", "resource": { "uri": "a://c", "blob": "AAAA" } },
            { "type": "resource_link", "uri": "a://d", "name": "three" },
        ]);
        let expected = "one\n\
             [image of image/png, about 6 bytes, was omitted: it is not an image in PNG, JPEG, GIF or WebP]\n\
             [image of image/png, about 0 bytes, was omitted: it is not base64]\n\
             [recording of audio/wav, about 3 bytes, was omitted]\n\
             [resource a://b]\ntwo\n\
             [a://c of unknown type, about 3 bytes, was omitted]\n\
             [resource a://d: three]";
        assert_eq!(text(json!({ "content": content })), expected);
    }

    #[test]
    fn images_follow_the_text_that_names_them_with_the_type_of_their_bytes() {
        let content = json!([
            { "type": "image", "mimeType": "image/jpeg", "data": PIXEL },
            { "type": "text", "text": "one" },
            { "type": "resource",
              "resource": { "uri": "a://b", "mimeType": "image/png", "blob": PIXEL } },
        ]);
        let result = json!({ "content": content });
        let output = output_of(&serde_json::from_value(result).unwrap());
        assert_eq!(
            output.text,
            "[image/png, 70 bytes]\none\n[resource a://b]\n[image/png, 70 bytes]"
        );
        let images: Vec<_> = output.images.iter().map(|it| (it.media_type, &*it.data)).collect();
        assert_eq!(images, [("image/png", PIXEL), ("image/png", PIXEL)]);
    }

    #[test]
    fn an_error_has_no_images() {
        let content = json!([{ "type": "image", "mimeType": "image/png", "data": PIXEL },
            { "type": "resource",
              "resource": { "uri": "a://b", "mimeType": "image/png", "blob": PIXEL } }]);
        let result = json!({ "content": content, "isError": true });
        let output = output_of(&serde_json::from_value(result).unwrap());
        let expected = "[image of image/png, about 72 bytes, was omitted]\n\
            [a://b of image/png, about 72 bytes, was omitted]";
        assert_eq!((output.text.as_str(), output.images.len()), (expected, 0));
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
