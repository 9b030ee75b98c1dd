//! Images and documents of any size.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A PNG of one pixel: 70 bytes.
pub(crate) const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// The text that replaces an unreadable block in a request to the model.
pub(crate) const WORD: &str = "(Something stood here that could not be read: it was left out.)";

/// A base64 source with these bytes.
pub(crate) fn base64(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "type": "base64", "media_type": media_type, "data": STANDARD.encode(bytes) })
}

/// An image of one pixel.
pub(crate) fn pixel() -> Value {
    json!({ "type": "image",
            "source": { "type": "base64", "media_type": "image/png", "data": PIXEL } })
}

/// An image that is given by URL.
pub(crate) fn image_at(url: &str) -> Value {
    json!({ "type": "image", "source": { "type": "url", "url": url } })
}

/// The header of a PNG of this width, followed by `padding` zero bytes.
pub(crate) fn png(width: u32, padding: usize) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend([width.to_be_bytes(), 1_u32.to_be_bytes()].concat());
    bytes.extend(b"\x08\x02\0\0\0");
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

/// A PDF of `pages` empty pages.
pub(crate) fn pdf(pages: usize) -> Vec<u8> {
    let page = "3 0 obj\n<< /Type /Page /Parent 2 0 R >>\nendobj\n".repeat(pages);
    format!(
        "%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n\
         2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count {pages} >>\nendobj\n{page}\
         trailer\n<< /Root 1 0 R /Size 4 >>\n%%EOF\n"
    )
    .into_bytes()
}
