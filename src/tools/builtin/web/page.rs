//! Conversion of a page to the text that the model reads.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};
use reqwest::Url;

use html_to_markdown::{Markdown, convert};

/// The number of leading bytes in which the encoding and the type of a page are detected.
const HEAD: usize = 1024;
/// The maximum length of a media type in an error, in bytes.
const MAX_TYPE: usize = 80;

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Text,
}

/// The error for a page that is not text, with its media type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its type is {0}, and only HTML, text, JSON, XML and PDF are read")]
pub(super) struct UnreadablePage(String);

/// Returns whether a page is a PDF, by its media type, or by its first bytes if the type is not
/// specific.
pub(super) fn is_pdf(content_type: Option<&str>, body: &[u8]) -> bool {
    match name(content_type).as_deref() {
        Some("application/pdf" | "application/x-pdf") => true,
        None | Some("" | "application/octet-stream" | "binary/octet-stream") => {
            body.starts_with(b"%PDF-")
        }
        Some(_) => false,
    }
}

/// Returns the media type without parameters.
fn name(content_type: Option<&str>) -> Option<String> {
    let name = content_type?.split(';').next().unwrap_or_default();
    Some(name.trim().to_ascii_lowercase())
}

/// The text of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageText {
    /// The title of an HTML page; may be empty.
    pub(super) title: String,
    /// The text that the model reads.
    pub(super) text: String,
}

/// Returns the text of a page: HTML as Markdown with its title, other text unchanged.
pub(super) fn text(
    content_type: Option<&str>,
    body: &[u8],
    url: &Url,
) -> Result<PageText, UnreadablePage> {
    let kind = match name(content_type) {
        Some(name) if !name.is_empty() => {
            kind(&name).ok_or_else(|| UnreadablePage(shown(&name)))?
        }
        Some(_) | None => guessed(body).ok_or_else(|| UnreadablePage("unknown".to_owned()))?,
    };
    let text = decoded(content_type, body, kind);
    if kind == Kind::Text {
        return Ok(PageText { title: String::new(), text: text.into_owned() });
    }
    let Markdown { title, text } = convert(&text, url);
    let text = if title.is_empty() { text } else { format!("Title: {title}\n\n{text}") };
    Ok(PageText { title, text })
}

fn kind(name: &str) -> Option<Kind> {
    match name {
        "text/html" | "application/xhtml+xml" => Some(Kind::Html),
        "application/json"
        | "application/xml"
        | "application/javascript"
        | "application/x-ndjson"
        | "application/yaml" => Some(Kind::Text),
        _ if name.starts_with("text/") => Some(Kind::Text),
        _ if name.ends_with("+json") || name.ends_with("+xml") => Some(Kind::Text),
        _ => None,
    }
}

/// Detects the kind of a page without a media type.
fn guessed(body: &[u8]) -> Option<Kind> {
    let head = body.get(..HEAD).unwrap_or(body);
    let start = head.trim_ascii_start().to_ascii_lowercase();
    if start.starts_with(b"<!doctype html") || start.starts_with(b"<html") {
        return Some(Kind::Html);
    }
    let is_text = !body.contains(&0) && str::from_utf8(body).is_ok();
    is_text.then_some(Kind::Text)
}

/// Decodes a page. The encoding is that of the byte order mark, the header, the page's own
/// declaration, or UTF-8, in this order.
fn decoded<'a>(content_type: Option<&str>, body: &'a [u8], kind: Kind) -> Cow<'a, str> {
    let declared = || charset(content_type?.as_bytes());
    let own = || charset(body.get(..HEAD).unwrap_or(body)).filter(|_| kind == Kind::Html);
    let encoding = declared().or_else(own).unwrap_or(UTF_8);
    // `decode` gives precedence to a byte order mark.
    encoding.decode(body).0
}

/// Returns the encoding of the first `charset=` in a header or a tag.
fn charset(text: &[u8]) -> Option<&'static Encoding> {
    let text = text.to_ascii_lowercase();
    let word = b"charset=";
    let at = text.windows(word.len()).position(|window| window == word)?;
    let rest = text.get(at + word.len()..)?;
    let rest = rest.strip_prefix(b"\"").or(rest.strip_prefix(b"'")).unwrap_or(rest);
    let is_end =
        |byte: &u8| matches!(byte, b'"' | b'\'' | b';' | b'>' | b'/') || byte.is_ascii_whitespace();
    Encoding::for_label(rest.split(|byte| is_end(byte)).next()?)
}

/// Truncates a media type that a server sent, and removes characters that are not valid in one.
fn shown(name: &str) -> String {
    name.chars().filter(char::is_ascii_graphic).take(MAX_TYPE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: Option<&str>, body: &[u8]) -> Result<String, String> {
        let url = "https://example.com/".parse().unwrap();
        let page = text(content_type, body, &url).map_err(|error| error.to_string())?;
        assert_eq!(page.title.is_empty(), !page.text.starts_with("Title: "));
        Ok(page.text)
    }

    #[test]
    fn html_becomes_markdown_and_other_text_stays() {
        let html = b"<title>T</title><h1>H</h1>";
        for (content_type, expected) in [
            ("text/html; charset=utf-8", "Title: T\n\n# H"),
            ("Application/XHTML+XML", "Title: T\n\n# H"),
            ("text/plain", "<title>T</title><h1>H</h1>"),
            ("image/svg+xml", "<title>T</title><h1>H</h1>"),
        ] {
            assert_eq!(read(Some(content_type), html).as_deref(), Ok(expected), "{content_type}");
        }
        assert_eq!(read(Some("application/json"), b"{ \"a\":1 }").unwrap(), "{ \"a\":1 }");
    }

    #[test]
    fn content_that_is_not_text_is_refused_with_its_media_type() {
        let rest = ", and only HTML, text, JSON, XML and PDF are read";
        for (content_type, named) in [
            (Some("application/zip"), "application/zip"),
            (Some("image/png; x=y"), "image/png"),
            (Some("a/\u{1b}[31m b"), "a/[31mb"),
        ] {
            assert_eq!(read(content_type, b"%"), Err(format!("its type is {named}{rest}")));
        }
        assert_eq!(read(None, b"\x89PNG\0"), Err(format!("its type is unknown{rest}")));
    }

    #[test]
    fn the_kind_of_a_page_without_a_media_type_is_detected() {
        assert_eq!(read(None, b"\n <!DOCTYPE html><p>a").unwrap(), "a");
        assert_eq!(read(Some(""), b"<p>a").unwrap(), "<p>a");
    }

    #[test]
    fn the_encoding_is_the_declared_one_or_utf_8() {
        for (content_type, body, expected) in [
            ("text/plain; charset=iso-8859-1", b"caf\xe9".as_slice(), "caf\u{e9}"),
            ("text/html", b"<meta charset='windows-1252'>caf\xe9", "caf\u{e9}"),
            ("text/html;charset=\"utf-8\"", b"<meta charset=latin1>\xc3\xa9", "\u{e9}"),
            ("text/plain; charset=latin1", b"\xef\xbb\xbf\xc3\xa9", "\u{e9}"),
            ("text/plain; charset=none", b"\xc3\xa9 \xff", "\u{e9} \u{fffd}"),
            ("text/plain", b"charset=latin1 \xc3\xa9", "charset=latin1 \u{e9}"),
        ] {
            assert_eq!(read(Some(content_type), body).unwrap(), expected, "{content_type}");
        }
    }
}
