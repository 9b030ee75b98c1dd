use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{assistant, call, history, refusal, request, text, user};

fn of(block: &Value) -> String {
    refusal(&request(&json!({ "messages": [user(json!([block]))] })))
}

fn png(width: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend([width.to_be_bytes(), 1_u32.to_be_bytes()].concat());
    bytes
}

fn base64(kind: &str, media_type: &str, bytes: &[u8]) -> Value {
    let data = STANDARD.encode(bytes);
    json!({ "type": kind,
            "source": { "type": "base64", "media_type": media_type, "data": data } })
}

fn found(cited: bool) -> Value {
    json!({ "type": "search_result", "source": "a", "title": "b", "content": [text("c")],
            "citations": { "enabled": cited } })
}

const IMAGE: &str = "messages.0.content.0.image.source";
const DOCUMENT: &str = "messages.0.content.0.document.source";

#[test]
fn an_image_is_inspected() {
    let table = [
        (base64("image", "image/png", &png(8000)), String::new()),
        (
            base64("image", "image/png", &png(8001)),
            format!(
                "{IMAGE}.base64.data: At least one of the image dimensions exceed max allowed \
                 size: 8000 pixels"
            ),
        ),
        (
            base64("image", "image/jpeg", &png(1)),
            format!(
                "{IMAGE}.base64.data: The image was specified using the image/jpeg media type, \
                 but the image appears to be of another"
            ),
        ),
        (base64("image", "image/png", b"no image"), "Could not process image".to_owned()),
        (
            base64("image", "image/tiff", &png(1)),
            format!(
                "{IMAGE}.base64.media_type: Input should be 'image/jpeg', 'image/png', \
                 'image/gif' or 'image/webp'"
            ),
        ),
        (
            json!({ "type": "image", "source":
                { "type": "base64", "media_type": "image/png", "data": "no!" } }),
            format!("{IMAGE}.base64.data: Invalid base64 data"),
        ),
        (
            json!({ "type": "image", "source": { "type": "url", "url": "http://a" } }),
            format!("{IMAGE}.url.url: Only HTTPS URLs are supported."),
        ),
        (json!({ "type": "image" }), format!("{IMAGE}: Field required")),
    ];
    for (block, expected) in table {
        assert_eq!(of(&block), expected, "{block}");
    }
    let large = base64("image", "image/png", &[png(1), vec![0; 8_000_000]].concat());
    assert!(of(&large).starts_with(&format!("{IMAGE}.base64: image exceeds 10 MB maximum: ")));
}

#[test]
fn a_document_is_inspected() {
    let pdf =
        |body: &str| base64("document", "application/pdf", format!("%PDF-1.4 {body}").as_bytes());
    let plain = |media_type: &str, data: &str| {
        json!({ "type": "document",
                "source": { "type": "text", "media_type": media_type, "data": data } })
    };
    let table = [
        (pdf(&"<</Type /Page >>".repeat(100)), String::new()),
        (
            pdf(&"<</Type /Page >>".repeat(101)),
            format!("{DOCUMENT}.base64.data: A maximum of 100 PDF pages may be provided."),
        ),
        (
            pdf("<</Encrypt 1 0 R>>"),
            format!("{DOCUMENT}.base64.data: The PDF specified is password protected."),
        ),
        (
            base64("document", "application/pdf", b"<html>"),
            format!("{DOCUMENT}.base64.data: The PDF specified was not valid."),
        ),
        (
            base64("document", "image/png", b"%PDF-"),
            format!("{DOCUMENT}.base64.media_type: Input should be 'application/pdf'"),
        ),
        (plain("text/plain", "a"), String::new()),
        (
            plain("text/html", "a"),
            format!("{DOCUMENT}.text.media_type: Input should be 'text/plain'"),
        ),
        (
            plain("text/plain", ""),
            format!("{DOCUMENT}.text.data: String should have at least 1 character"),
        ),
    ];
    for (block, expected) in table {
        assert_eq!(of(&block), expected, "{block}");
    }
}

#[test]
fn the_media_of_a_request_are_limited() {
    let messages = |blocks: Vec<Value>| refusal(&request(&json!({ "messages": [user(blocks)] })));
    let image = |width| base64("image", "image/png", &png(width));
    assert_eq!(messages(vec![image(1); 100]), "");
    let expected = "messages: Too much media: 0 document pages + 101 images > 100";
    assert_eq!(messages(vec![image(1); 101]), expected);
    assert_eq!(messages(vec![image(2001); 20]), "");
    let expected = "messages: At least one of the image dimensions exceed max allowed size for \
                    many-image requests: 2000 pixels";
    assert_eq!(messages(vec![image(2001); 21]), expected);
    assert_eq!(messages(vec![found(true), found(true)]), "");
    let expected = "messages: citations must be enabled on all search results or on none";
    assert_eq!(messages(vec![found(true), found(false)]), expected);
}

#[test]
fn citations_and_an_output_format_exclude_each_other() {
    let format = json!({ "format": { "type": "json_schema", "schema": {
        "type": "object", "additionalProperties": false } } });
    let asked = |block: Value, tools: Value| {
        let messages = json!([user(json!([block]))]);
        refusal(&request(&json!({ "messages": messages, "output_config": format, "tools": tools })))
    };
    let document = |cited: bool| {
        json!({ "type": "document", "citations": { "enabled": cited },
                "source": { "type": "text", "media_type": "text/plain", "data": "a" } })
    };
    let fetch = |cited: bool| {
        json!([{ "type": "web_fetch_20250910", "name": "web_fetch",
                 "citations": { "enabled": cited } }])
    };
    let expected = "output_config.format: citations cannot be enabled when a format is set";
    for block in [document(true), found(true)] {
        assert_eq!(asked(block, fetch(false)), expected);
    }
    assert_eq!(asked(document(false), fetch(true)), expected);
    assert_eq!(asked(document(false), fetch(false)), "");
    assert_eq!(asked(found(false), fetch(false)), "");
}

#[test]
fn media_in_a_result_are_inspected() {
    let result = |part: Value| {
        let result = json!({ "type": "tool_result", "tool_use_id": "a", "content": [part] });
        let messages = json!([user("hello"), assistant(json!([call("a")])), user(json!([result]))]);
        refusal(&history(&messages))
    };
    assert_eq!(result(base64("image", "image/png", &png(1))), "");
    assert_eq!(result(base64("image", "image/png", b"no image")), "Could not process image");
    assert_eq!(
        result(json!({ "type": "document", "source": { "type": "url", "url": "ftp://a" } })),
        "messages.2.content.0.tool_result.content.0.document.source.url.url: Only HTTPS URLs are \
         supported."
    );
}
