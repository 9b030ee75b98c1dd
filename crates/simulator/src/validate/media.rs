//! Images, documents and search results: the rules for one, and for all of a request together.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imagesize::{ImageType, blob_size, image_type};
use serde_json::Value;

use super::{Checked, refuse, unexpected};
use crate::request::{ApiRequest, ContentBlock};

/// Maximum size of an image in base64, in bytes.
const MAX_BASE64: usize = 10 * 1024 * 1024;
/// Maximum width and height of an image in pixels; the second applies to requests with many images.
const MAX_PIXELS: usize = 8000;
const MAX_PIXELS_OF_MANY: usize = 2000;
/// A request with more images than this has many.
const FEW: usize = 20;
/// Maximum number of images and document pages in one request.
const MAX_MEDIA: usize = 100;

/// Checks a block in a user message or in a tool result.
pub(super) fn check(at: &str, block: &Value) -> Checked {
    let kind = str(block, "type");
    let at = format!("{at}.{kind}");
    match kind {
        "image" => image(&format!("{at}.source"), block.get("source")),
        "document" => {
            citations(&at, block)?;
            document(&format!("{at}.source"), block.get("source"))
        }
        "search_result" => {
            citations(&at, block)?;
            search_result(&at, block)
        }
        _ => Ok(()),
    }
}

/// Citations interrupt the text that a schema constrains. Documentation of structured outputs,
/// "Feature compatibility": status 400 if citations are enabled together with `output_config.format`.
/// The wording is the simulator's.
const CITED_SCHEMA: &str = "output_config.format: citations cannot be enabled when a format is set";

/// Checks the limits on a whole request.
pub(super) fn whole(request: ApiRequest<'_>) -> Checked {
    let all = within(request.sent().map(|(_, located)| located.block));
    let of_kind = |kind: &'static str| all.iter().filter(move |block| str(block, "type") == kind);
    let images = of_kind("image").count();
    let pages: usize =
        of_kind("document").filter_map(|block| pdf(block)).map(|pdf| pages(&pdf)).sum();
    if images + pages > MAX_MEDIA {
        return refuse(format!(
            "messages: Too much media: {pages} document pages + {images} images > {MAX_MEDIA}"
        ));
    }
    let side = |block: &&&Value| pixels(block.get("source").unwrap_or(&Value::Null));
    if images > FEW && of_kind("image").any(|block| side(&block) > MAX_PIXELS_OF_MANY) {
        return refuse(format!(
            "messages: At least one of the image dimensions exceed max allowed size for \
             many-image requests: {MAX_PIXELS_OF_MANY} pixels"
        ));
    }
    let mut cited = of_kind("search_result").map(|block| is_cited(block));
    let first = cited.next();
    if cited.any(|cited| Some(cited) != first) {
        return refuse("messages: citations must be enabled on all search results or on none");
    }
    let is_schema = request
        .get("output_config")
        .is_some_and(|config| config.get("format").is_some_and(|format| !format.is_null()));
    let cites = all.iter().any(|block| is_cited(block)) || request.tools().iter().any(is_cited);
    if is_schema && cites {
        return refuse(CITED_SCHEMA);
    }
    Ok(())
}

/// The bytes of blocks that are images, not text.
pub(crate) fn size<'a>(blocks: impl Iterator<Item = ContentBlock<'a>>) -> usize {
    let data = |block: &&Value| block.get("source").map_or(0, picture_size);
    within(blocks).iter().map(data).sum()
}

/// The data of the source, or the data URL of the other protocol.
fn picture_size(source: &Value) -> usize {
    match str(source, "type") {
        "base64" => str(source, "data").len(),
        "url" => {
            Some(str(source, "url")).filter(|url| url.starts_with("data:")).map_or(0, str::len)
        }
        _ => 0,
    }
}

/// Returns these blocks, and those in results and documents.
fn within<'a>(blocks: impl Iterator<Item = ContentBlock<'a>>) -> Vec<&'a Value> {
    let mut left: Vec<&Value> = blocks.filter_map(ContentBlock::json).collect();
    let mut all = Vec::new();
    while let Some(block) = left.pop() {
        all.push(block);
        let parts = match str(block, "type") {
            "tool_result" => block.get("content"),
            "document" => block.get("source").and_then(|source| source.get("content")),
            _ => None,
        };
        left.extend(parts.and_then(Value::as_array).into_iter().flatten());
    }
    all
}

fn image(at: &str, source: Option<&Value>) -> Checked {
    let Some(source) = source.filter(|source| source.is_object()) else {
        return refuse(format!("{at}: Field required"));
    };
    match str(source, "type") {
        "base64" => {
            members(at, "base64", source, &["media_type", "data"])?;
            picture(&format!("{at}.base64"), str(source, "media_type"), str(source, "data"))
        }
        "url" => url(at, source),
        "file" => members(at, "file", source, &["file_id"]),
        other => unexpected(at, other, "'base64', 'file', 'url'"),
    }
}

fn picture(at: &str, media_type: &str, data: &str) -> Checked {
    let claimed = match media_type {
        "image/jpeg" => ImageType::Jpeg,
        "image/png" => ImageType::Png,
        "image/gif" => ImageType::Gif,
        "image/webp" => ImageType::Webp,
        _ => {
            return refuse(format!(
                "{at}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or \
                 'image/webp'"
            ));
        }
    };
    if data.len() > MAX_BASE64 {
        let size = data.len();
        return refuse(format!(
            "{at}: image exceeds 10 MB maximum: {size} bytes > {MAX_BASE64} bytes"
        ));
    }
    let Ok(bytes) = STANDARD.decode(data) else {
        return refuse(format!("{at}.data: Invalid base64 data"));
    };
    if image_type(&bytes).is_ok_and(|kind| kind != claimed) {
        return refuse(format!(
            "{at}.data: The image was specified using the {media_type} media type, but the image \
             appears to be of another"
        ));
    }
    match blob_size(&bytes) {
        Ok(size) if size.width > MAX_PIXELS || size.height > MAX_PIXELS => refuse(format!(
            "{at}.data: At least one of the image dimensions exceed max allowed size: \
             {MAX_PIXELS} pixels"
        )),
        Ok(size) if size.width > 0 && size.height > 0 => Ok(()),
        _ => refuse("Could not process image"),
    }
}

fn document(at: &str, source: Option<&Value>) -> Checked {
    let Some(source) = source.filter(|source| source.is_object()) else {
        return refuse(format!("{at}: Field required"));
    };
    match str(source, "type") {
        "base64" => {
            members(at, "base64", source, &["media_type", "data"])?;
            portable(&format!("{at}.base64"), source)
        }
        "text" => {
            members(at, "text", source, &["media_type", "data"])?;
            if str(source, "media_type") != "text/plain" {
                return refuse(format!("{at}.text.media_type: Input should be 'text/plain'"));
            }
            said(&format!("{at}.text.data"), str(source, "data"))
        }
        "content" => {
            members(at, "content", source, &["content"])?;
            parts(&format!("{at}.content.content"), source.get("content"), &["text", "image"])
        }
        "url" => url(at, source),
        "file" => members(at, "file", source, &["file_id"]),
        other => unexpected(at, other, "'base64', 'content', 'file', 'text', 'url'"),
    }
}

fn portable(at: &str, source: &Value) -> Checked {
    if str(source, "media_type") != "application/pdf" {
        return refuse(format!("{at}.media_type: Input should be 'application/pdf'"));
    }
    let Ok(bytes) = STANDARD.decode(str(source, "data")) else {
        return refuse(format!("{at}.data: Invalid base64 data"));
    };
    if !bytes.starts_with(b"%PDF-") {
        return refuse(format!("{at}.data: The PDF specified was not valid."));
    }
    if count(&bytes, b"/Encrypt") > 0 {
        return refuse(format!("{at}.data: The PDF specified is password protected."));
    }
    if pages(&bytes) > MAX_MEDIA {
        return refuse(format!("{at}.data: A maximum of {MAX_MEDIA} PDF pages may be provided."));
    }
    Ok(())
}

fn search_result(at: &str, block: &Value) -> Checked {
    for field in ["source", "title"] {
        said(&format!("{at}.{field}"), str(block, field))?;
    }
    parts(&format!("{at}.content"), block.get("content"), &["text"])
}

/// Checks the blocks within a block.
fn parts(at: &str, content: Option<&Value>, kinds: &[&str]) -> Checked {
    let parts = match content {
        Some(Value::String(text)) if at.ends_with("content.content") => return said(at, text),
        Some(Value::Array(parts)) if !parts.is_empty() => parts,
        Some(Value::Array(_)) => {
            return refuse(format!("{at}: List should have at least 1 item"));
        }
        _ => return refuse(format!("{at}: Input should be a valid list")),
    };
    for (nth, part) in parts.iter().enumerate() {
        let at = format!("{at}.{nth}");
        match str(part, "type") {
            kind if !kinds.contains(&kind) => return unexpected(at, kind, &kinds.join(", ")),
            "text" => said(&format!("{at}.text.text"), str(part, "text"))?,
            _ => check(&at, part)?,
        }
    }
    Ok(())
}

fn citations(at: &str, block: &Value) -> Checked {
    match block.get("citations") {
        None | Some(Value::Null) => Ok(()),
        Some(citations) if citations.get("enabled").is_some_and(Value::is_boolean) => Ok(()),
        Some(_) => refuse(format!("{at}.citations.enabled: Field required")),
    }
}

fn url(at: &str, source: &Value) -> Checked {
    members(at, "url", source, &["url"])?;
    if str(source, "url").starts_with("https://") {
        return Ok(());
    }
    refuse(format!("{at}.url.url: Only HTTPS URLs are supported."))
}

fn said(at: &str, text: &str) -> Checked {
    if text.trim().is_empty() {
        return refuse(format!("{at}: String should have at least 1 character"));
    }
    Ok(())
}

/// Requires these string members and no other.
fn members(at: &str, kind: &str, source: &Value, names: &[&str]) -> Checked {
    if let Some(missing) = names.iter().find(|name| source.get(**name).is_none()) {
        return refuse(format!("{at}.{kind}.{missing}: Field required"));
    }
    let mut given = source.as_object().into_iter().flat_map(|source| source.keys());
    match given.find(|name| *name != "type" && !names.contains(&name.as_str())) {
        Some(extra) => refuse(format!("{at}.{kind}.{extra}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

fn is_cited(block: &Value) -> bool {
    block.pointer("/citations/enabled").and_then(Value::as_bool).unwrap_or_default()
}

fn pdf(block: &Value) -> Option<Vec<u8>> {
    let source = block.get("source").filter(|source| str(source, "type") == "base64")?;
    STANDARD.decode(str(source, "data")).ok()
}

fn pixels(source: &Value) -> usize {
    let bytes = STANDARD.decode(str(source, "data")).unwrap_or_default();
    blob_size(&bytes).map_or(0, |size| size.width.max(size.height))
}

/// Counts the pages of a document with uncompressed objects.
fn pages(bytes: &[u8]) -> usize {
    count(bytes, b"/Type /Page\n") + count(bytes, b"/Type /Page ")
}

fn count(bytes: &[u8], what: &[u8]) -> usize {
    memchr::memmem::find_iter(bytes, what).count()
}

fn str<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
