//! The parts of user messages, and the content blocks of the service.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::domain::ids::SessionId;
use crate::domain::media::placeholder;
use crate::domain::message::Content;
use crate::http::adapters::media::FileUrl;
use crate::http::error::ApiError;
use crate::http::server::forwarded::link;

/// A part of a message. Parts of other types, and other members, are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Part {
    r#type: String,
    text: String,
    url: String,
    media_type: String,
    filename: Option<String>,
}

/// The content blocks of the parts of a user message. Parts for the user interface only are left out.
pub(super) fn blocks(parts: &[Value], pointer: &str) -> Result<Vec<Value>, ApiError> {
    let mut blocks = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let refuse = |message: &str| ApiError::field(&format!("{pointer}/parts/{index}"), message);
        let part = Part::deserialize(part).map_err(|error| refuse(&error.to_string()))?;
        match part.r#type.as_str() {
            "text" if part.text.is_empty() => {}
            "text" => blocks.push(json!({ "type": "text", "text": part.text })),
            "file" => blocks.push(file_block(part).map_err(refuse)?),
            _ => {}
        }
    }
    Ok(blocks)
}

fn file_block(part: Part) -> Result<Value, &'static str> {
    let Part { url, media_type, filename, .. } = part;
    FileUrl { url: &url, media_type: Some(&media_type), filename }.into_block()
}

/// A content block of a user message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StoredBlock {
    r#type: String,
    text: String,
    title: Option<String>,
    source: Value,
}

/// The parts of a stored user message of a conversation, whose session has the uploaded files.
pub(super) fn parts(content: &Content, session_id: SessionId) -> Vec<Value> {
    let blocks = content.blocks().unwrap_or_default();
    let part = |block: &crate::domain::message::Block<'_>| {
        let stored: StoredBlock = serde_json::from_str(block.raw.get()).unwrap_or_default();
        match stored.r#type.as_str() {
            "text" => json!({ "type": "text", "text": stored.text }),
            "image" | "document" => file_part(stored, session_id),
            // A search result.
            _ => {
                let text = placeholder(block.raw).ok().flatten().unwrap_or_default();
                json!({ "type": "text", "text": text })
            }
        }
    };
    blocks.iter().map(part).collect()
}

fn file_part(block: StoredBlock, session_id: SessionId) -> Value {
    let StoredBlock { r#type, title, source, .. } = block;
    let member = |name: &str| source.get(name).and_then(Value::as_str).unwrap_or_default();
    let media_type = match member("media_type") {
        "" if r#type == "image" => "image/*",
        "" => "application/pdf",
        media_type => media_type,
    };
    let url = match member("type") {
        "url" => member("url").to_owned(),
        "file" => link(format_args!("/sessions/{session_id}/files/{}/content", member("file_id"))),
        "base64" => format!("data:{media_type};base64,{}", member("data")),
        _ => format!("data:{media_type};base64,{}", STANDARD.encode(member("data"))),
    };
    let mut part = json!({ "type": "file", "mediaType": media_type, "url": url });
    if let (Some(title), Some(part)) = (title, part.as_object_mut()) {
        part.insert("filename".to_owned(), title.into());
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::FileId;

    #[test]
    fn parts_survive_as_blocks() {
        let session = SessionId::new();
        let uploaded = format!("/v1/sessions/{session}/files/{}/content", FileId::new());
        let all = [
            json!({ "type": "text", "text": "Look:" }),
            json!({ "type": "file", "mediaType": "image/*", "url": uploaded }),
            json!({ "type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk=" }),
            json!({ "type": "file", "mediaType": "application/pdf", "filename": "a.pdf",
                    "url": "data:application/pdf;base64,aGk=" }),
            json!({ "type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,aGk=" }),
            json!({ "type": "file", "mediaType": "image/*", "url": "https://a.example/b.png" }),
        ];
        let with_others = all.iter().cloned().chain([json!({ "type": "data-x", "data": 1 })]);
        let blocks = blocks(&with_others.collect::<Vec<_>>(), "/message").unwrap();
        let content = Content::parse(Value::from(blocks).to_string()).unwrap();
        assert_eq!(parts(&content, session), all);
    }

    #[test]
    fn an_unusable_file_is_refused() {
        for url in ["data:text/plain,hi", "blob:x", "data:text/plain;base64,////"] {
            let part = json!({ "type": "file", "mediaType": "text/plain", "url": url });
            assert!(blocks(&[part], "/message").is_err(), "{url}");
        }
    }
}
