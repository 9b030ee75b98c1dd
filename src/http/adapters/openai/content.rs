//! The content of messages.

use serde::Deserialize;
use serde_json::Value;

use crate::http::adapters::media::{self, ContentPart, FileUrl, uploaded_file};
use crate::http::error::ApiError;

/// A part of a content: of Chat Completions, or of Responses, whose files have no object of their own.
/// Other members are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    r#type: String,
    text: String,
    image_url: Option<ImageUrl>,
    file: Option<File>,
    #[serde(flatten)]
    own_file: File,
}

/// The address of an image, as OpenAI and as some clients write it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ImageUrl {
    Object { url: String },
    Text(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names of the protocol")]
struct File {
    file_id: Option<String>,
    file_data: Option<String>,
    file_url: Option<String>,
    filename: Option<String>,
}

/// The content blocks of a user message.
pub(super) fn blocks(content: &Value, pointer: &str) -> Result<Vec<Value>, ApiError> {
    media::blocks::<Part>(content, pointer)
}

/// The texts of a content, joined.
pub(super) fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

impl ContentPart for Part {
    const MEDIA: &'static [&'static str] = &["image_url", "file", "input_image", "input_file"];

    fn kind(&self) -> &str {
        match &*self.r#type {
            "input_text" | "output_text" => "text",
            kind => kind,
        }
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn media(self) -> Result<Value, &'static str> {
        if let Some(ImageUrl::Object { url } | ImageUrl::Text(url)) = self.image_url {
            let media_type = (!url.starts_with("data:")).then_some("image/*");
            return FileUrl { url: &url, media_type, filename: None }.into_block();
        }
        let is_image = self.r#type == "input_image";
        let File { file_id, file_data, file_url, filename } = self.file.unwrap_or(self.own_file);
        if let Some(file_id) = file_id {
            return Ok(uploaded_file(&file_id, is_image, filename));
        }
        let url = file_data.or(file_url);
        let url = url.ok_or("has no `image_url`, `file_id`, `file_data` or `file_url`")?;
        FileUrl { url: &url, media_type: None, filename }.into_block()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_content_blocks() {
        let content = json!([
            { "type": "text", "text": "Look" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,aGk=" } },
            { "type": "image_url", "image_url": "https://a.example/b.png" },
            { "type": "file", "file": { "file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf" } },
        ]);
        let data = |media_type: &str| json!({ "type": "base64", "media_type": media_type, "data": "aGk=" });
        assert_eq!(
            blocks(&content, "").unwrap(),
            [
                json!({ "type": "text", "text": "Look" }),
                json!({ "type": "image", "source": data("image/png") }),
                json!({ "type": "image", "source": { "type": "url", "url": "https://a.example/b.png" } }),
                json!({ "type": "document", "source": data("application/pdf"), "title": "a.pdf" }),
            ]
        );
        assert_eq!(text(&content), "Look");
    }

    #[test]
    fn parts_refer_to_uploaded_files() {
        let content = json!([
            { "type": "file", "file": { "file_id": "file_1" } },
            { "type": "input_file", "file_id": "file_2", "filename": "a.pdf" },
            { "type": "input_image", "file_id": "file_3", "detail": "auto" },
            { "type": "input_text", "text": "Look" },
        ]);
        let source = |id: &str| json!({ "type": "file", "file_id": id });
        assert_eq!(
            blocks(&content, "").unwrap(),
            [
                json!({ "type": "document", "source": source("file_1") }),
                json!({ "type": "document", "source": source("file_2"), "title": "a.pdf" }),
                json!({ "type": "image", "source": source("file_3") }),
                json!({ "type": "text", "text": "Look" }),
            ]
        );
    }

    #[test]
    fn an_unknown_part_is_refused() {
        for part in [json!({ "type": "input_audio" }), json!({ "type": "file", "file": {} })] {
            assert!(blocks(&json!([part]), "").is_err(), "{part}");
        }
    }
}
