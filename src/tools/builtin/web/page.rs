//! A page as the model reads it.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};
use reqwest::Url;

use html_to_markdown::{Markdown, convert};

/// Bytes of a page that are looked at for a word on its characters or on what it is.
const HEAD: usize = 1024;
/// Bytes of the name of a type that are told.
const MAX_TYPE: usize = 80;

/// What is read of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Text,
}

/// A page that is no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its type is {0}, and only HTML, text, JSON, XML and PDF are read")]
pub(super) struct NoText(String);

/// Whether a page is a PDF: by its type, or by its first bytes if its type says nothing.
pub(super) fn is_pdf(content_type: Option<&str>, body: &[u8]) -> bool {
    match name(content_type).as_deref() {
        Some("application/pdf" | "application/x-pdf") => true,
        None | Some("" | "application/octet-stream" | "binary/octet-stream") => {
            body.starts_with(b"%PDF-")
        }
        Some(_) => false,
    }
}

/// The name of a type, without what stands behind it.
fn name(content_type: Option<&str>) -> Option<String> {
    let name = content_type?.split(';').next().unwrap_or_default();
    Some(name.trim().to_ascii_lowercase())
}

/// The text of a page: of HTML as Markdown, with its title, and all else as it is.
pub(super) fn text(content_type: Option<&str>, body: &[u8], url: &Url) -> Result<String, NoText> {
    let kind = match name(content_type) {
        Some(name) if !name.is_empty() => kind(&name).ok_or_else(|| NoText(shown(&name)))?,
        Some(_) | None => guessed(body).ok_or_else(|| NoText("not told".to_owned()))?,
    };
    let text = decoded(content_type, body, kind);
    if kind == Kind::Text {
        return Ok(text.into_owned());
    }
    let Markdown { title, text } = convert(&text, url);
    Ok(if title.is_empty() { text } else { format!("Title: {title}\n\n{text}") })
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

/// What a page is whose server does not say it.
fn guessed(body: &[u8]) -> Option<Kind> {
    let head = body.get(..HEAD).unwrap_or(body);
    let start = head.trim_ascii_start().to_ascii_lowercase();
    if start.starts_with(b"<!doctype html") || start.starts_with(b"<html") {
        return Some(Kind::Html);
    }
    let is_text = !body.contains(&0) && str::from_utf8(body).is_ok();
    is_text.then_some(Kind::Text)
}

/// The characters of a page: by its first bytes, by its server's word, by its own, or UTF-8.
fn decoded<'a>(content_type: Option<&str>, body: &'a [u8], kind: Kind) -> Cow<'a, str> {
    let told = || charset(content_type?.as_bytes());
    let own = || charset(body.get(..HEAD).unwrap_or(body)).filter(|_| kind == Kind::Html);
    let encoding = told().or_else(own).unwrap_or(UTF_8);
    // Its first bytes come before all else.
    encoding.decode(body).0
}

/// The encoding behind the first `charset=`, in a header or in a tag.
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

/// A name that a server gave, as far as it can be one.
fn shown(name: &str) -> String {
    name.chars().filter(char::is_ascii_graphic).take(MAX_TYPE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: Option<&str>, body: &[u8]) -> Result<String, String> {
        let url = "https://example.com/".parse().unwrap();
        text(content_type, body, &url).map_err(|error| error.to_string())
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
    fn what_is_no_text_is_refused_by_its_name() {
        let rest = ", and only HTML, text, JSON, XML and PDF are read";
        for (content_type, named) in [
            (Some("application/zip"), "application/zip"),
            (Some("image/png; x=y"), "image/png"),
            (Some("a/\u{1b}[31m b"), "a/[31mb"),
        ] {
            assert_eq!(read(content_type, b"%"), Err(format!("its type is {named}{rest}")));
        }
        assert_eq!(read(None, b"\x89PNG\0"), Err(format!("its type is not told{rest}")));
    }

    #[test]
    fn a_page_without_a_type_is_looked_at() {
        assert_eq!(read(None, b"\n <!DOCTYPE html><p>a").unwrap(), "a");
        assert_eq!(read(Some(""), b"<p>a").unwrap(), "<p>a");
    }

    #[test]
    fn characters_are_read_as_somebody_says_or_as_utf_8() {
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
