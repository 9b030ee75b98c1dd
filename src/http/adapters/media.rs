//! Images and documents in messages of other protocols.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::domain::ids::FileId;
use crate::http::error::ApiError;

/// A part of a message in another protocol.
pub(in crate::http) trait ContentPart: DeserializeOwned {
    /// The types of parts that are no text.
    const MEDIA: &'static [&'static str];

    /// The type of the part.
    fn kind(&self) -> &str;

    /// The text of a part of the type `text`.
    fn text(&self) -> &str;

    /// The content block of a part of one of the types in [`Self::MEDIA`].
    fn media(self) -> Result<Value, &'static str>;
}

/// The content blocks of a message: a text, or an array of parts.
pub(in crate::http) fn blocks<P: ContentPart>(
    content: &Value,
    pointer: &str,
) -> Result<Vec<Value>, ApiError> {
    let parts = match content {
        Value::String(text) => return Ok(vec![json!({ "type": "text", "text": text })]),
        Value::Array(parts) => parts,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(ApiError::field(pointer, "is not a string or an array of parts"));
        }
    };
    let mut blocks = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let refuse = |message: &str| ApiError::field(&format!("{pointer}/{index}"), message);
        let part = P::deserialize(part).map_err(|error| refuse(&error.to_string()))?;
        if part.kind() == "text" {
            if !part.text().is_empty() {
                blocks.push(json!({ "type": "text", "text": part.text() }));
            }
            continue;
        }
        if !P::MEDIA.contains(&part.kind()) {
            let (kind, allowed) = (part.kind(), P::MEDIA.join(", "));
            return Err(refuse(&format!("has the type {kind:?}; allowed: text, {allowed}")));
        }
        blocks.push(part.media().map_err(refuse)?);
    }
    Ok(blocks)
}

/// The content block of an uploaded file. The type of the file is checked when the message is posted.
pub(in crate::http) fn uploaded_file(
    file_id: &str,
    is_image: bool,
    filename: Option<String>,
) -> Value {
    let source = json!({ "type": "file", "file_id": file_id });
    if is_image {
        return json!({ "type": "image", "source": source });
    }
    document(&source, filename)
}

fn document(source: &Value, filename: Option<String>) -> Value {
    let mut block = json!({ "type": "document", "source": source });
    if let (Some(filename), Some(block)) = (filename, block.as_object_mut()) {
        block.insert("title".to_owned(), filename.into());
    }
    block
}

/// The id of the uploaded file whose content this URL has: `…/files/{id}/content`.
fn file_of_url(url: &str) -> Option<&str> {
    let path = url.split(['?', '#']).next()?;
    let (_, id) = path.strip_suffix("/content")?.rsplit_once("/files/")?;
    id.parse::<FileId>().ok().map(|_| id)
}

/// A file that a client names by a URL.
#[derive(Debug)]
pub(in crate::http) struct FileUrl<'a> {
    /// A `data:` URL in base64, an `http(s):` URL, or the path of the content of an uploaded file, with
    /// or without the origin of the service.
    pub(in crate::http) url: &'a str,
    /// The media type; none for that of the `data:` URL.
    pub(in crate::http) media_type: Option<&'a str>,
    pub(in crate::http) filename: Option<String>,
}

impl FileUrl<'_> {
    /// The content block of the file. Files of unknown types are documents.
    pub(in crate::http) fn into_block(self) -> Result<Value, &'static str> {
        let Self { url, media_type, filename } = self;
        if let Some(file_id) = file_of_url(url) {
            let is_image = media_type.is_some_and(|it| it.starts_with("image/"));
            return Ok(uploaded_file(file_id, is_image, filename));
        }
        let (own_type, source) = match url.strip_prefix("data:") {
            None if url.starts_with("https:") || url.starts_with("http:") => {
                ("", json!({ "type": "url", "url": url }))
            }
            None => return Err("has a `url` that is neither `data:` nor `http(s):`"),
            Some(data) => {
                let parts = data.split_once(";base64,");
                let (own_type, data) = parts.ok_or("has a `data:` URL without `;base64`")?;
                (own_type, source(media_type.unwrap_or(own_type), data)?)
            }
        };
        if media_type.unwrap_or(own_type).starts_with("image/") {
            return Ok(json!({ "type": "image", "source": source }));
        }
        Ok(document(&source, filename))
    }
}

fn source(media_type: &str, data: &str) -> Result<Value, &'static str> {
    if !media_type.starts_with("text/") {
        return Ok(json!({ "type": "base64", "media_type": media_type, "data": data }));
    }
    let text = STANDARD.decode(data).ok().and_then(|it| String::from_utf8(it).ok());
    let text = text.ok_or("is not text in base64")?;
    Ok(json!({ "type": "text", "media_type": "text/plain", "data": text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_an_uploaded_file_is_a_reference() {
        let id = FileId::new().to_string();
        let block = |url: &str, kind: &str| {
            FileUrl { url, media_type: Some(kind), filename: None }.into_block().unwrap()
        };
        let source = json!({ "type": "file", "file_id": id });
        for url in [
            format!("/v1/files/{id}/content"),
            format!("https://a.example/agent/v1/sessions/ses_1/files/{id}/content?x=1"),
        ] {
            let image = json!({ "type": "image", "source": source });
            assert_eq!(block(&url, "image/png"), image, "{url}");
            let document = json!({ "type": "document", "source": source });
            assert_eq!(block(&url, "application/pdf"), document, "{url}");
        }
        let other = "https://a.example/files/file_1/content";
        assert_eq!(block(other, "image/png")["source"]["type"], "url");
    }
}
