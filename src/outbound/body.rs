//! Response bodies with a size limit that applies before and after decompression.

use std::borrow::Cow;
use std::io::Read as _;

use brotli_decompressor::Decompressor;
use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_with_limit};
use reqwest::Response;
use reqwest::header::CONTENT_ENCODING;

/// Size of the decompression buffer, in bytes.
const BUFFER: usize = 16 * 1024;

/// The cause of an unreadable response body.
#[derive(Debug, thiserror::Error)]
pub enum BadBody {
    /// The body exceeds the size limit.
    #[error("the body is longer than {0} bytes")]
    Large(usize),
    /// The encoding was not requested, or the compressed data is not valid.
    #[error("the body cannot be decompressed")]
    Compressed,
    /// The connection failed before the end of the body.
    #[error("the connection failed before the end of the body: {0}")]
    Broken(reqwest::Error),
}

/// Reads and decompresses the body of a response.
pub async fn read_body(mut response: Response, max: usize) -> Result<Vec<u8>, BadBody> {
    let encoding = response.headers().get(CONTENT_ENCODING).map(|value| value.as_bytes().to_vec());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > max {
            return Err(BadBody::Large(max));
        }
        body.extend_from_slice(&chunk);
    }
    let encoding = encoding.as_deref().map_or(Cow::Borrowed(""), String::from_utf8_lossy);
    match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => gunzip(&body, max),
        "br" => unbrotli(&body, max),
        _ => Err(BadBody::Compressed),
    }
}

fn broken(error: reqwest::Error) -> BadBody {
    BadBody::Broken(error.without_url())
}

/// Decompresses a gzip file with one member (RFC 1952).
fn gunzip(file: &[u8], max: usize) -> Result<Vec<u8>, BadBody> {
    let deflated = after_header(file).ok_or(BadBody::Compressed)?;
    decompress_to_vec_with_limit(deflated, max).map_err(|error| {
        let is_large = error.status == TINFLStatus::HasMoreOutput;
        if is_large { BadBody::Large(max) } else { BadBody::Compressed }
    })
}

fn after_header(file: &[u8]) -> Option<&[u8]> {
    let [0x1f, 0x8b, 8, flags, _, _, _, _, _, _, rest @ ..] = file else { return None };
    let mut rest = rest;
    if flags & 4 != 0 {
        let (length, after) = rest.split_first_chunk()?;
        rest = after.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    // The file name and the comment, each terminated by a NUL.
    for flag in [8, 16] {
        if flags & flag != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & 2 != 0 { rest.get(2..) } else { Some(rest) }
}

/// Decompresses a Brotli stream (RFC 7932) with a window of at most 16 MiB.
fn unbrotli(stream: &[u8], max: usize) -> Result<Vec<u8>, BadBody> {
    let mut text = Vec::new();
    let decompressor = Decompressor::new(stream, BUFFER);
    let read = decompressor.take(max as u64 + 1).read_to_end(&mut text);
    read.map_err(|_| BadBody::Compressed)?;
    if text.len() > max { Err(BadBody::Large(max)) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::deflate::compress_to_vec;

    fn gzip(flags: u8, fields: &[u8], text: &[u8]) -> Vec<u8> {
        let mut file = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3];
        file.extend_from_slice(fields);
        file.extend(compress_to_vec(text, 6));
        file.extend([0; 8]);
        file
    }

    #[test]
    fn gzip_headers_with_optional_fields_are_accepted() {
        let fields = [b"\x03\x00abc".as_slice(), b"name\0", b"comment\0", b"\x12\x34"].concat();
        for file in [gzip(0, b"", b"page"), gzip(2 | 4 | 8 | 16, &fields, b"page")] {
            assert_eq!(gunzip(&file, 4).unwrap(), b"page");
        }
    }

    #[test]
    fn a_gzip_bomb_is_refused() {
        let bomb = gzip(0, b"", &vec![0; 1_000_000]);
        assert!(bomb.len() < 2000);
        assert!(matches!(gunzip(&bomb, 999_999), Err(BadBody::Large(999_999))));
        assert_eq!(gunzip(&bomb, 1_000_000).unwrap().len(), 1_000_000);
    }

    fn brotli(text: &[u8]) -> Vec<u8> {
        let mut stream = Vec::new();
        let params = brotli::enc::BrotliEncoderParams::default();
        brotli::BrotliCompress(&mut &text[..], &mut stream, &params).unwrap();
        stream
    }

    #[test]
    fn a_brotli_stream_is_decompressed_up_to_the_limit() {
        assert_eq!(unbrotli(&brotli(b"page"), 4).unwrap(), b"page");
        assert_eq!(unbrotli(&brotli(b""), 4).unwrap(), b"");
        let bomb = brotli(&vec![0; 100_000_000]);
        assert!(bomb.len() < 2000);
        assert!(matches!(unbrotli(&bomb, 999_999), Err(BadBody::Large(999_999))));
        assert_eq!(unbrotli(&bomb, 100_000_000).unwrap().len(), 100_000_000);
    }

    #[test]
    fn invalid_brotli_streams_are_refused() {
        let cut = &brotli(b"a page of some length")[..12];
        for stream in [b"".as_slice(), b"page", cut] {
            assert!(matches!(unbrotli(stream, 100), Err(BadBody::Compressed)), "{stream:?}");
        }
    }

    #[test]
    fn invalid_gzip_files_are_refused() {
        let cut = &gzip(0, b"", b"a page of some length")[..20];
        for file in [b"".as_slice(), b"page", &gzip(8, b"", b"page")[..10], cut] {
            assert!(matches!(gunzip(file, 100), Err(BadBody::Compressed)), "{file:?}");
        }
    }
}
