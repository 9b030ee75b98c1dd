//! The body of an upload: the bytes of a file, or a form (`multipart/form-data`, RFC 7578) with the file
//! in the field `file`.

use axum::extract::{FromRef, FromRequest, Request};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use memchr::memmem;

use crate::http::error::ApiError;
use crate::http::extract::body::{BodyLimits, media_type};
use crate::http::extract::large_body::{BodyPermits, LargeBodies, LargeBytes};
use crate::service::offload::offload;

/// The field of a form that has the file.
const FIELD: &str = "file";
const FORM: &str = "multipart/form-data";
const LINE_END: &[u8] = b"\r\n";
/// The end of the headers of a part.
const HEADERS_END: &[u8] = b"\r\n\r\n";

/// A file that a client uploads, and the memory permits of the body.
#[derive(Debug)]
pub(in crate::http) struct UploadBody {
    pub(in crate::http) content: Bytes,
    /// The media type that the client names.
    pub(in crate::http) media_type: Option<String>,
    /// The name in the form.
    pub(in crate::http) filename: Option<String>,
    pub(in crate::http) permits: BodyPermits,
}

/// The schema of a form.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only the OpenAPI document uses it")]
pub(in crate::http) struct FileForm {
    /// The file. Its `filename` is the name of the file. Other fields are ignored.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

impl<S> FromRequest<S> for UploadBody
where
    S: Send + Sync,
    BodyLimits: FromRef<S>,
    LargeBodies: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let boundary = boundary(request.headers())?;
        let LargeBytes(content, media_type, permits) =
            LargeBytes::from_request(request, state).await?;
        let Some(boundary) = boundary else {
            return Ok(Self { content, media_type, filename: None, permits });
        };
        let find = move || FormPart::find(&content, &boundary);
        let part = offload(permits.bytes(), find).await?;
        let part = part.map_err(|problem| ApiError::field("", problem))?;
        let FormPart { content, media_type, filename, .. } = part;
        Ok(Self { content, media_type, filename, permits })
    }
}

/// The boundary of a form; none for another body.
fn boundary(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    if media_type(headers) != FORM {
        return Ok(None);
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = parameter(kind, "boundary").filter(|boundary| !boundary.is_empty());
    let missing = || ApiError::field("", format!("is {FORM} without a boundary"));
    boundary.ok_or_else(missing).map(Some)
}

/// A part of a form.
#[derive(Debug, Default, PartialEq, Eq)]
struct FormPart {
    field: String,
    filename: Option<String>,
    media_type: Option<String>,
    content: Bytes,
}

impl FormPart {
    /// Finds the file in the body of a form.
    fn find(body: &Bytes, boundary: &str) -> Result<Self, String> {
        let incomplete = || format!("is not a complete {FORM} body");
        let delimiter = [LINE_END, b"--", boundary.as_bytes()].concat();
        let finder = memmem::Finder::new(&delimiter);
        // The first delimiter may be at the beginning.
        let mut next = match body.strip_prefix(delimiter.get(2..).unwrap_or_default()) {
            Some(rest) => body.len() - rest.len(),
            None => finder.find(body).ok_or_else(incomplete)? + delimiter.len(),
        };
        loop {
            let after = body.slice(next..);
            if after.starts_with(b"--") {
                return Err(format!("has no field `{FIELD}`"));
            }
            let headers_end = memmem::find(&after, HEADERS_END).ok_or_else(incomplete)?;
            let headers = after.slice(..headers_end);
            // An empty content begins with the line end before its delimiter.
            let content = after.slice(headers_end + HEADERS_END.len()..);
            let end = finder.find(&content).ok_or_else(incomplete)?;
            let mut part = Self::of_headers(&headers);
            next += headers_end + HEADERS_END.len() + end + delimiter.len();
            if part.field == FIELD {
                part.content = content.slice(..end);
                return Ok(part);
            }
        }
    }

    fn of_headers(headers: &[u8]) -> Self {
        let mut part = Self::default();
        for line in String::from_utf8_lossy(headers).split("\r\n") {
            let Some((name, value)) = line.split_once(':') else { continue };
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            if name == "content-disposition" {
                part.field = parameter(value, "name").unwrap_or_default();
                part.filename = parameter(value, "filename").filter(|name| !name.is_empty());
            } else if name == "content-type" {
                part.media_type = declared(value);
            }
        }
        part
    }
}

/// The media type of a part. Browsers name texts by their extensions, and the service knows one type of
/// text.
fn declared(value: &str) -> Option<String> {
    const TEXTS: [&str; 5] = [
        "application/json",
        "application/jsonl",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
    ];
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind.starts_with("text/") || TEXTS.contains(&&*kind) {
        return Some("text/plain".to_owned());
    }
    Some(kind).filter(|kind| !kind.is_empty())
}

/// The value of a parameter of a header, which may be a quoted string.
fn parameter(header: &str, name: &str) -> Option<String> {
    let mut rest = header.split_once(';')?.1;
    loop {
        let (own, after) = rest.split_once('=')?;
        let own = own.trim_matches([' ', '\t', ';']);
        let (value, next) = if let Some(quoted) = after.strip_prefix('"') {
            unquoted(quoted)
        } else {
            let (value, next) = after.split_once(';').unwrap_or((after, ""));
            (value.trim().to_owned(), next)
        };
        if own.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = next;
    }
}

/// A quoted string after its first quotation mark, and what follows. Clients write a quotation mark as
/// `\"` or as `%22`, and line ends as `%0D` and `%0A`.
fn unquoted(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((index, char)) = chars.next() {
        match char {
            '"' => {
                let next = text.get(index + 1..).unwrap_or_default();
                return (
                    value.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"),
                    next,
                );
            }
            '\\' if text.get(index + 1..).is_some_and(|it| it.starts_with(['"', '\\'])) => {
                value.extend(chars.next().map(|(_, char)| char));
            }
            char => value.push(char),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(body: &str) -> Result<FormPart, String> {
        FormPart::find(&Bytes::copy_from_slice(body.as_bytes()), "b")
    }

    #[test]
    fn the_file_is_found_among_the_fields() {
        let body = "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--b\r\n\
            content-disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\" %22c.md\"\r\n\
            Content-Type: text/markdown\r\n\r\n# Title\r\n--c\r\n\r\n--b--\r\n";
        let part = find(body).unwrap();
        assert_eq!(part.content, "# Title\r\n--c\r\n");
        assert_eq!(part.filename.as_deref(), Some("a \"b\" \"c.md"));
        assert_eq!(part.media_type.as_deref(), Some("text/plain"));
    }

    #[test]
    fn a_form_may_have_a_preamble_and_an_empty_file() {
        let empty = "x\r\n--b\r\nContent-Disposition: form-data; name=file\r\n\r\n\r\n--b--";
        let part = find(empty).unwrap();
        assert_eq!((part.content.len(), part.filename, part.media_type), (0, None, None));
    }

    #[test]
    fn an_incomplete_form_or_one_without_the_file_is_refused() {
        let disposition = "Content-Disposition: form-data; name=\"file\"";
        for body in [
            String::new(),
            "--b".to_owned(),
            format!("--b\r\n{disposition}\r\n\r\nhalf"),
            format!("--b\r\n{disposition}\r\n"),
        ] {
            assert_eq!(
                find(&body).unwrap_err(),
                "is not a complete multipart/form-data body",
                "{body}"
            );
        }
        let other = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n";
        assert_eq!(find(other).unwrap_err(), "has no field `file`");
    }

    #[test]
    fn the_boundary_may_be_quoted() {
        for (kind, expected) in [
            ("multipart/form-data; boundary=abc", Some("abc")),
            ("multipart/form-data; charset=utf-8; boundary=\"a b;c\"", Some("a b;c")),
            ("text/plain; boundary=abc", None),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]);
            assert_eq!(boundary(&headers).unwrap().as_deref(), expected, "{kind}");
        }
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, FORM.parse().unwrap())]);
        assert!(boundary(&headers).is_err());
    }
}
