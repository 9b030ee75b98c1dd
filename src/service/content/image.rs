//! Checks of inline images: type, size and base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imagesize::{ImageSize, ImageType, blob_size, image_type};

/// The largest base64 of one image, in bytes.
pub(super) const MAX_BASE64: usize = 10 * 1024 * 1024;
/// The largest width and height of an image, in pixels.
const MAX_SIDE: usize = 8000;
/// The first part of the base64, in which the size is usually found, in bytes.
const HEAD: usize = 64 * 1024;

/// The wrong member of the source, and the reason.
pub(super) type Problem = (&'static str, String);

/// Checks an inline image by its bytes; the declared type must match them.
pub(super) fn check(media_type: &str, data: &str) -> Result<(), Problem> {
    let expected = match media_type {
        "image/png" => ImageType::Png,
        "image/jpeg" => ImageType::Jpeg,
        "image/gif" => ImageType::Gif,
        "image/webp" => ImageType::Webp,
        _ => {
            let message = "is not image/png, image/jpeg, image/gif or image/webp";
            return Err(("media_type", message.to_owned()));
        }
    };
    let wrong = |message: String| ("data", message);
    if data.len() > MAX_BASE64 {
        return Err(wrong(format!("has more than {MAX_BASE64} bytes of base64")));
    }
    let bytes = decode(data).map_err(wrong)?;
    if image_type(&bytes).ok() != Some(expected) {
        return Err(wrong("is not an image of this type".to_owned()));
    }
    check_size(&bytes).map_err(wrong)
}

/// Checks the width and the height of an image.
pub(super) fn check_size(bytes: &[u8]) -> Result<(), String> {
    let ImageSize { width, height } =
        blob_size(bytes).map_err(|_| "is an image without a readable size".to_owned())?;
    if width == 0 || height == 0 {
        return Err(format!("is an image of {width}x{height} pixels"));
    }
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(format!(
            "is {width}x{height} pixels; at most {MAX_SIDE}x{MAX_SIDE} is allowed"
        ));
    }
    Ok(())
}

/// The media type of an image that the model accepts, by its first bytes.
pub(super) fn kind(bytes: &[u8]) -> Option<&'static str> {
    let kinds = [
        (ImageType::Png, "image/png"),
        (ImageType::Jpeg, "image/jpeg"),
        (ImageType::Gif, "image/gif"),
        (ImageType::Webp, "image/webp"),
    ];
    let found = image_type(bytes).ok()?;
    kinds.into_iter().find(|(kind, _)| *kind == found).map(|(_, name)| name)
}

/// The longer side of a valid image, in pixels.
pub(super) fn longer_side(data: &str) -> usize {
    let size = |data: &str| blob_size(&decode(data).ok()?).ok();
    // The size is at the beginning; in a JPEG it follows the camera's metadata.
    let size = data.get(..HEAD).and_then(size).or_else(|| size(data));
    size.map_or(0, |ImageSize { width, height }| width.max(height))
}

/// Decodes padded base64 of the standard alphabet; other characters are errors.
pub(super) fn decode(data: &str) -> Result<Vec<u8>, String> {
    match STANDARD.decode(data) {
        Ok(bytes) if bytes.is_empty() => Err("is empty".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err("is not base64".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a PNG.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend(b"\x08\x02\0\0\0");
        bytes
    }

    /// The wrong member; empty if there is none.
    fn wrong_member(media_type: &str, bytes: &[u8]) -> &'static str {
        check(media_type, &STANDARD.encode(bytes)).err().map_or("", |(member, _)| member)
    }

    #[test]
    fn the_type_of_an_image_is_read_from_its_bytes() {
        let jpeg = b"\xff\xd8\xff\xe0\x00\x04AB\xff\xc0\x00\x11\x08\x00\x10\x00\x20\x03aaaaaaaa";
        let gif = b"GIF89a\x10\x00\x10\x00\x00\x00\x00";
        let webp = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x07\xc0\x01\0aaaaaaaa";
        let images: [(&str, &[u8]); 4] = [
            ("image/png", &png(1, 8000)),
            ("image/jpeg", jpeg),
            ("image/gif", gif),
            ("image/webp", webp),
        ];
        for (kind, bytes) in images {
            for (claimed, _) in images {
                let expected = if claimed == kind { "" } else { "data" };
                assert_eq!(wrong_member(claimed, bytes), expected, "{kind} as {claimed}");
            }
        }
        assert_eq!(wrong_member("image/svg+xml", b"<svg/>"), "media_type");
    }

    #[test]
    fn an_image_has_a_size_within_bounds() {
        for (width, height) in [(0, 1), (1, 0), (8001, 1), (1, 8001), (u32::MAX, u32::MAX)] {
            assert_eq!(wrong_member("image/png", &png(width, height)), "data", "{width}x{height}");
        }
        assert_eq!(
            wrong_member("image/png", &png(1, 1)[..16]),
            "data",
            "truncated before its size"
        );
        let large = [png(1, 1), vec![0; MAX_BASE64 / 4 * 3]].concat();
        assert_eq!(wrong_member("image/png", &large), "data");
    }

    #[test]
    fn only_plain_padded_base64_is_accepted() {
        let png = STANDARD.encode(png(1, 1));
        let unpadded = png.trim_end_matches('=');
        for data in ["", "no!", "AAAA", &png[..7], &format!("{png}\n"), &format!(" {png}"), "_-=="]
        {
            assert_eq!(check("image/png", data).unwrap_err().0, "data", "{data:?}");
        }
        assert_eq!(check("image/png", unpadded).is_ok(), unpadded == png);
    }
}
