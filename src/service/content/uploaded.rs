//! Uploaded files: checks of their content, and the blocks that refer to them.

use serde::Deserialize;

use super::image::MAX_BASE64;
use super::parse::{MAX_PAGES, MAX_TEXT};
use crate::domain::file::reference;
use crate::domain::ids::FileId;
use crate::domain::image::{self, MAX_SIDE};
use crate::domain::message::{BadContent, Content};
use crate::domain::pdf;

/// The largest PDF in bytes: with its base64 it fits into a request to the model.
const MAX_PDF: usize = 22_000_000;
/// The largest image in bytes.
const MAX_IMAGE: usize = MAX_BASE64 / 4 * 3;

/// The media type of a file by its content, or the reason why it cannot be uploaded. `declared` is the
/// type that the client named, if it named one.
pub(crate) fn media_type(declared: Option<&str>, bytes: &[u8]) -> Result<&'static str, String> {
    if bytes.is_empty() {
        return Err("is empty".to_owned());
    }
    let found = found(bytes)?;
    match declared.filter(|declared| *declared != "application/octet-stream") {
        Some(declared) if declared != found => {
            Err(format!("is {found} by its content, and not {declared}"))
        }
        _ => Ok(found),
    }
}

fn found(bytes: &[u8]) -> Result<&'static str, String> {
    let at_most = |max: usize, kind: &'static str| {
        let is_small = bytes.len() <= max;
        is_small.then_some(kind).ok_or_else(|| {
            format!("has {} bytes; at most {max} are allowed for {kind}", bytes.len())
        })
    };
    if let Some(kind) = image::media_type(bytes) {
        image::check_size(bytes, MAX_SIDE)?;
        return at_most(MAX_IMAGE, kind);
    }
    if let Some(pdf) = pdf::read(bytes) {
        if pdf.is_encrypted {
            return Err("is an encrypted PDF".to_owned());
        }
        if pdf.pages.is_some_and(|pages| pages > MAX_PAGES) {
            return Err(format!("has more than {MAX_PAGES} pages"));
        }
        return at_most(MAX_PDF, "application/pdf");
    }
    let is_text = std::str::from_utf8(bytes)
        .is_ok_and(|text| !text.contains('\0') && !text.trim().is_empty());
    if is_text {
        return at_most(MAX_TEXT, "text/plain");
    }
    Err("is neither PNG, JPEG, GIF, WebP, PDF nor text in UTF-8".to_owned())
}

/// A block that refers to a file.
#[derive(Debug)]
pub(crate) struct FileUse {
    /// The file.
    pub(crate) id: FileId,
    /// The pointer to the source of the block.
    pub(crate) pointer: String,
    /// True for an image, false for a document.
    pub(crate) is_image: bool,
}

#[derive(Deserialize)]
struct Tag {
    r#type: String,
}

/// The blocks of a message that refer to files.
pub(crate) fn file_uses(content: &Content) -> Result<Vec<FileUse>, BadContent> {
    let mut uses = Vec::new();
    for (index, block) in content.blocks()?.iter().enumerate() {
        let Some((id, _)) = reference(block.raw) else { continue };
        let Tag { r#type } = serde_json::from_str(block.raw.get())?;
        let pointer = format!("/content/{index}/source");
        uses.push(FileUse { id, pointer, is_image: r#type == "image" });
    }
    Ok(uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_file_is_read_from_its_content() {
        let gif = b"GIF89a\x10\x00\x10\x00\x00\x00\x00\x00";
        let of = |declared: Option<&str>, bytes: &[u8]| media_type(declared, bytes).ok();
        for declared in [None, Some("image/gif"), Some("application/octet-stream")] {
            assert_eq!(of(declared, gif), Some("image/gif"), "{declared:?}");
        }
        assert_eq!(of(Some("image/png"), gif), None);
        assert_eq!(of(Some("text/plain"), "Grüße".as_bytes()), Some("text/plain"));
        for unknown in [b"".as_slice(), b" \n", b"a\0b", b"\xff\xfe\x00"] {
            assert_eq!(of(None, unknown), None, "{unknown:?}");
        }
    }
}
