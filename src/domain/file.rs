//! Uploaded files, and the references of messages to them.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::ids::{FileId, SessionId};

/// An uploaded file, without its content.
#[derive(Debug, Clone)]
pub struct StoredFile {
    /// The id.
    pub id: FileId,
    /// The session that the file is deleted with.
    pub session_id: Option<SessionId>,
    /// The name that the client gave.
    pub name: Option<String>,
    /// The type of the content.
    pub media_type: String,
    /// The size in bytes.
    pub size: i64,
    /// The time of the upload.
    pub created_at: Timestamp,
}

/// The content of a file as a source of a block.
#[derive(Debug)]
pub enum FileContent {
    /// Text.
    Text(String),
    /// Base64 and its media type.
    Base64 {
        /// The media type.
        media_type: String,
        /// The content.
        data: String,
    },
}

/// The text before the id of a file in a block as it is stored.
const MARK: &str = r#""type":"file","file_id":""#;

#[derive(Deserialize)]
struct SourcedBlock<'a> {
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FileSource<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    file_id: Option<FileId>,
}

/// Returns true if a stored content may refer to a file.
pub fn may_refer(content: &str) -> bool {
    content.contains(MARK)
}

/// The file that a block refers to, and the JSON of the reference.
pub fn reference(block: &RawValue) -> Option<(FileId, &RawValue)> {
    if !may_refer(block.get()) {
        return None;
    }
    let source = serde_json::from_str::<SourcedBlock<'_>>(block.get()).ok()?.source?;
    let file: FileSource<'_> = serde_json::from_str(source.get()).ok()?;
    (file.kind == "file").then_some(())?;
    Some((file.file_id?, source))
}

/// The files that a stored content refers to, in their order.
pub fn references(content: &str) -> Vec<FileId> {
    if !may_refer(content) {
        return Vec::new();
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
    blocks.into_iter().filter_map(|block| reference(block).map(|(id, _)| id)).collect()
}

/// The content with the files in place of the references to them. A text replaces a block whose file
/// was deleted.
pub fn with_files(content: &str, file: impl Fn(FileId) -> Option<FileContent>) -> String {
    let blocks: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
    let blocks: Vec<Cow<'_, str>> = blocks
        .into_iter()
        .map(|block| match reference(block) {
            None => Cow::Borrowed(block.get()),
            Some((id, source)) => Cow::Owned(match file(id) {
                Some(file) => block.get().replacen(source.get(), &file.source(), 1),
                None => deleted(id),
            }),
        })
        .collect();
    format!("[{}]", blocks.join(","))
}

fn deleted(id: FileId) -> String {
    json!({ "type": "text", "text": format!("(The file {id} was deleted.)") }).to_string()
}

impl FileContent {
    /// The source of a block, as if the client had sent the content with the message.
    fn source(&self) -> String {
        let source = match self {
            Self::Text(text) => json!({ "type": "text", "media_type": "text/plain", "data": text }),
            Self::Base64 { media_type, data } => {
                json!({ "type": "base64", "media_type": media_type, "data": data })
            }
        };
        to_raw_value(&source).map(|source| source.get().to_owned()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_by_the_content_of_the_files() {
        let [image, gone] = [FileId::new(), FileId::new()];
        let text = r#"{"type":"text",  "text":"\"type\":\"file\",\"file_id\":\""}"#;
        let block = |id: FileId| {
            format!(r#"{{"type":"image","source":{{"type":"file","file_id":"{id}"}}}}"#)
        };
        let content = format!("[{text},{},{}]", block(image), block(gone));
        assert_eq!(references(&content), [image, gone]);
        let resolved = with_files(&content, |id| {
            let (media_type, data) = ("image/png".to_owned(), "AAAA".to_owned());
            (id == image).then_some(FileContent::Base64 { media_type, data })
        });
        let expected = concat!(
            r#"{"type":"image","source":"#,
            r#"{"type":"base64","media_type":"image/png","data":"AAAA"}}"#
        );
        let removed = format!(r#"{{"type":"text","text":"(The file {gone} was deleted.)"}}"#);
        assert_eq!(resolved, format!("[{text},{expected},{removed}]"));
        assert!(!may_refer(&resolved.replace(text, "")));
        assert_eq!(references(&format!("[{text}]")), []);
    }
}
