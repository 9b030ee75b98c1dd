use serde_json::{Value, json};

use super::parse::ParsedContent;
use super::*;
use crate::service::error::FieldError;

/// The stored form of an input, or all errors in it.
fn parsed(given: &Value) -> Result<Value, Vec<(String, String)>> {
    let ParsedContent { blocks, errors } =
        parse(serde_json::from_value(given.clone()).unwrap(), "");
    if errors.is_empty() {
        return Ok(serde_json::to_value(blocks).unwrap());
    }
    Err(errors.into_iter().map(|FieldError { pointer, message, .. }| (pointer, message)).collect())
}

fn url(kind: &str, url: &str) -> Value {
    json!({ "type": kind, "source": { "type": "url", "url": url } })
}

fn document(source: &Value) -> Value {
    json!({ "type": "document", "source": source })
}

fn found(title: &str) -> Value {
    json!({ "type": "search_result", "source": "wiki", "title": title,
            "content": [{ "type": "text", "text": "a" }] })
}

#[test]
fn blocks_have_one_form_for_any_order_of_members() {
    let given = r#"[{"text":"a","type":"text"},
        {"source":{"url":"https://a.b/c","type":"url"},"type":"image"},
        {"title":null,"citations":{"enabled":true},"context":"c","type":"document",
         "source":{"data":"d","media_type":"text/plain","type":"text"}},
        {"type":"document","title":"T","source":{"content":"e","type":"content"}},
        {"content":"f","title":"g","source":"h","type":"search_result"}]"#;
    let ParsedContent { blocks, errors } = parse(serde_json::from_str(given).unwrap(), "");
    assert_eq!(errors, []);
    assert_eq!(
        serde_json::to_string(&blocks).unwrap(),
        concat!(
            r#"[{"type":"text","text":"a"},"#,
            r#"{"type":"image","source":{"type":"url","url":"https://a.b/c"}},"#,
            r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"d"},"#,
            r#""context":"c","citations":{"enabled":true}},"#,
            r#"{"type":"document","source":{"type":"content","content":[{"type":"text","text":"e"}]},"#,
            r#""title":"T"},"#,
            r#"{"type":"search_result","source":"h","title":"g","#,
            r#""content":[{"type":"text","text":"f"}]}]"#,
        )
    );
}

/// Checks that each input is refused, and that the first error is at the pointer.
fn assert_refused(table: &[(Value, &str)]) {
    for (given, pointer) in table {
        let errors = parsed(given).unwrap_err();
        let pointers: Vec<&str> = errors.iter().map(|(pointer, _)| pointer.as_str()).collect();
        assert_eq!(pointers.first(), Some(pointer), "{given}: {errors:?}");
    }
}

#[test]
fn errors_in_texts_and_images_are_reported_by_pointer() {
    assert_refused(&[
        (json!([{ "type": "video" }]), "/0/type"),
        (json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "" }]), "/1/text"),
        (json!([{ "type": "text" }]), "/0/text"),
        (json!([{ "type": "text", "text": "a", "title": "b" }]), "/0/title"),
        (json!([{ "type": "image" }]), "/0/source"),
        (json!([{ "type": "image", "source": "a" }]), "/0/source"),
        (json!([{ "type": "image", "source": { "type": "file" } }]), "/0/source/type"),
        (json!([{ "type": "image", "source": { "type": "base64" } }]), "/0/source/media_type"),
        (json!([url("image", "http://a.b")]), "/0/source/url"),
        (json!([url("image", "https://")]), "/0/source/url"),
        (json!([url("image", "https://me:secret@a.b")]), "/0/source/url"),
        (json!([url("image", " https://a.b")]), "/0/source/url"),
        (json!([url("image", "https://a.b/\tc")]), "/0/source/url"),
        (json!([url("document", "file:///etc/passwd")]), "/0/source/url"),
        (
            json!([{ "type": "image", "source": { "type": "url", "url": "https://a", "data": "b" } }]),
            "/0/source/data",
        ),
    ]);
}

#[test]
fn errors_in_documents_and_search_results_are_reported_by_pointer() {
    let mut cited = found("b");
    cited["citations"] = json!({ "enabled": true });
    let deep = json!({ "type": "content", "content": [document(&json!(null))] });
    assert_refused(&[
        (json!([document(&json!({ "type": "content", "content": [] }))]), "/0/source/content"),
        (json!([document(&deep)]), "/0/source/content/0/type"),
        (
            json!([document(&json!({ "type": "text", "media_type": "text/html", "data": "a" }))]),
            "/0/source/media_type",
        ),
        (
            json!([document(
                &json!({ "type": "text", "media_type": "text/plain", "data": "\u{0}a" })
            )]),
            "/0/source/data",
        ),
        (
            json!([document(&json!({ "type": "base64", "media_type": "image/png", "data": "a" }))]),
            "/0/source/media_type",
        ),
        (
            json!([document(
                &json!({ "type": "base64", "media_type": "application/pdf", "data": "AAAA" })
            )]),
            "/0/source/data",
        ),
        (
            json!([{ "type": "search_result", "source": " ", "title": "a", "content": "b" }]),
            "/0/source",
        ),
        (json!([{ "type": "search_result", "source": "a", "content": "b" }]), "/0/title"),
        (json!([{ "type": "search_result", "source": "a", "title": "b" }]), "/0/content"),
        (json!([found("a"), cited]), "/1/citations"),
    ]);
}

#[test]
fn images_and_text_of_a_message_are_limited() {
    let many = vec![url("image", "https://a.b"); 101];
    assert_eq!(parsed(&json!(many)).unwrap_err()[0].0, "");
    assert!(parsed(&json!(many[..100])).is_ok());
    let halves = |len: usize| {
        let plain = json!({ "type": "text", "media_type": "text/plain", "data": "x".repeat(len) });
        json!([{ "type": "text", "text": "x".repeat(2 * 1024 * 1024) }, document(&plain)])
    };
    assert!(parsed(&halves(2 * 1024 * 1024)).is_ok());
    assert_eq!(parsed(&halves(2 * 1024 * 1024 + 1)).unwrap_err()[0].0, "");
}

fn problem(contents: &[Value]) -> Option<String> {
    let contents: Vec<String> = contents.iter().map(Value::to_string).collect();
    ContentTotals::of(contents.iter().map(String::as_str)).unwrap().problem(30_000_000)
}

/// An image block with the header of a PNG.
fn image(width: u32) -> Value {
    use base64::Engine as _;
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend([width.to_be_bytes(), 1_u32.to_be_bytes()].concat());
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data } })
}

#[test]
fn images_are_counted_over_the_whole_session() {
    let some = |count: usize| json!(vec![url("image", "https://a.b"); count]);
    assert_eq!(problem(&[some(60), some(40)]), None);
    assert!(problem(&[some(60), some(41)]).unwrap().contains("101 images"));
    let result = json!([{ "type": "tool_result", "tool_use_id": "a", "content": some(41) },
                        { "type": "tool_result", "tool_use_id": "b", "content": "text" }]);
    assert!(problem(&[some(60), result]).unwrap().contains("101 images"));
    let part = json!([document(&json!({ "type": "content", "content": some(41) }))]);
    assert!(problem(&[some(60), part]).unwrap().contains("101 images"));
}

#[test]
fn none_of_many_images_may_be_large() {
    let large = json!([image(2001)]);
    let many = json!(vec![image(2000); 20]);
    assert_eq!(problem(&[large.clone(), json!(vec![image(2000); 19])]), None);
    assert!(problem(&[large, many]).unwrap().contains("more than 20 images"));
}

#[test]
fn all_search_results_of_a_session_have_the_same_citations() {
    let mut cited = found("a");
    cited["citations"] = json!({ "enabled": true });
    assert_eq!(problem(&[json!([found("a")]), json!([found("b")])]), None);
    assert!(problem(&[json!([cited]), json!([found("b")])]).is_some());
}

#[test]
fn the_size_of_a_session_is_limited() {
    let text = |len: usize| json!([{ "type": "text", "text": "x".repeat(len) }]);
    assert_eq!(problem(&[text(15_000_000), text(14_999_000)]), None);
    assert!(problem(&[text(15_000_000), text(15_000_000)]).is_some());
}
