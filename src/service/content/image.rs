//! Checks of inline images: type, size and base64.

use crate::domain::image::{MAX_SIDE, check_size, decode, media_type as type_of};

/// The largest base64 of one image, in bytes.
pub(super) const MAX_BASE64: usize = 10 * 1024 * 1024;

/// The wrong member of the source, and the reason.
pub(super) type Problem = (&'static str, String);

/// Checks an inline image by its bytes; the declared type must match them.
pub(super) fn check(media_type: &str, data: &str) -> Result<(), Problem> {
    if !matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
        let message = "is not image/png, image/jpeg, image/gif or image/webp";
        return Err(("media_type", message.to_owned()));
    }
    let wrong = |message: String| ("data", message);
    if data.len() > MAX_BASE64 {
        return Err(wrong(format!("has more than {MAX_BASE64} bytes of base64")));
    }
    let bytes = decode(data).map_err(wrong)?;
    if type_of(&bytes) != Some(media_type) {
        return Err(wrong("is not an image of this type".to_owned()));
    }
    check_size(&bytes, MAX_SIDE).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

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
