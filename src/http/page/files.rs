//! The files of the page, which `make page` builds. The program contains them.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use rust_embed::Embed;

#[derive(Embed)]
#[folder = "web/dist"]
struct Files;

/// A file in the form in which it is sent.
pub(super) struct PageFile {
    pub(super) content: Bytes,
    /// The entity tag of this form.
    pub(super) etag: String,
    pub(super) media_type: &'static str,
    /// True if the content is compressed with gzip.
    pub(super) is_compressed: bool,
}

/// A file of the page; none if there is no such file.
pub(super) fn page_file(name: &str, accepts_gzip: bool) -> Option<PageFile> {
    let media_type = media_type(name)?;
    let compressed = || Files::get(&format!("{name}.gz")).filter(|_| accepts_gzip);
    let (file, is_compressed) = match compressed() {
        Some(file) => (file, true),
        None => (Files::get(name)?, false),
    };
    let mut etag = String::from("\"");
    for byte in &file.metadata.sha256_hash()[..16] {
        let _ = write!(etag, "{byte:02x}");
    }
    etag.push('"');
    let content = match file.data {
        Cow::Borrowed(content) => Bytes::from_static(content),
        Cow::Owned(content) => content.into(),
    };
    Some(PageFile { content, etag, media_type, is_compressed })
}

/// The media type of a file by its name; none if the page has no such files.
fn media_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension {
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

/// Reports whether the client accepts a response that is compressed with gzip.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|list| list.to_str().ok());
    let mut any = false;
    for coding in lists.flat_map(|list| list.split(',')) {
        let (name, parameter) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = parameter.trim().strip_prefix("q=").map(str::trim);
        let is_accepted = quality.is_none_or(|quality| quality.parse().is_ok_and(|q: f32| q > 0.0));
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => return is_accepted,
            "*" => any = is_accepted,
            _ => {}
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn gzip_is_sent_only_to_clients_that_accept_it() {
        for (list, accepts) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate, *", true),
            ("*;q=0", false),
            ("gzip;q=0", false),
            ("gzip; q=0.0, *", false),
            ("br", false),
            ("identity", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(list))]);
            assert_eq!(accepts_gzip(&headers), accepts, "{list:?}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn every_file_has_a_known_type_and_a_smaller_compressed_form() {
        let names: Vec<_> = Files::iter().filter(|name| !name.ends_with(".gz")).collect();
        assert!(names.iter().any(|name| name == "index.html"), "{names:?}");
        for name in names {
            let plain = page_file(&name, false).unwrap_or_else(|| panic!("{name}: unknown type"));
            let compressed = page_file(&name, true).unwrap();
            if name.ends_with(".js") || name.ends_with(".css") {
                assert!(compressed.is_compressed && compressed.content.len() < plain.content.len());
            }
            assert_eq!(compressed.etag == plain.etag, !compressed.is_compressed, "{name}");
        }
    }

    #[test]
    fn the_scripts_are_at_most_150_kilobytes_compressed() {
        let scripts = Files::iter().filter(|name| name.ends_with(".js.gz"));
        let size: usize = scripts.map(|name| Files::get(&name).unwrap().data.len()).sum();
        assert!((10_000..=150_000).contains(&size), "{size} bytes");
    }

    #[test]
    fn a_path_outside_the_page_is_no_file() {
        for name in ["../package.json", "../../Cargo.toml", "", "assets", "assets/", "/etc/passwd"]
        {
            assert!(page_file(name, true).is_none(), "{name}");
        }
    }
}
