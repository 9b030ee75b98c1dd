//! Images that the model accepts: their type and size, by their bytes.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imagesize::{ImageSize, ImageType, blob_size, image_type};

/// The largest width and height of an image, in pixels.
pub const MAX_SIDE: usize = 8000;
/// The number of images of a request of which each may have the full size.
pub const FEW_IMAGES: usize = 20;
/// The largest width and height of each image of a request with more images, in pixels.
pub const MAX_SIDE_OF_MANY: usize = 2000;
/// The largest image of a tool, in bytes. Some platforms accept images with 5 MB of base64 at most.
pub const MAX_TOOL_IMAGE: usize = 5 * 1024 * 1024 / 4 * 3;

/// The first part of the base64, in which the size is usually found, in bytes.
const HEAD: usize = 64 * 1024;

/// An image in the result of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The media type, by the first bytes.
    pub media_type: &'static str,
    /// The image in base64.
    pub data: String,
    /// The size of the image in bytes.
    pub bytes: usize,
}

/// The type and the size, as events report an image.
impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {} bytes]", self.media_type, self.bytes)
    }
}

impl Image {
    /// Checks the bytes of an image of a tool. No image is larger than one of many images may be,
    /// because a result stays in the history and later results may have images, too.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let Some(media_type) = media_type(bytes) else {
            return Err("is not an image in PNG, JPEG, GIF or WebP".to_owned());
        };
        if bytes.len() > MAX_TOOL_IMAGE {
            let len = bytes.len();
            return Err(format!("has {len} bytes; at most {MAX_TOOL_IMAGE} are allowed"));
        }
        check_size(bytes, MAX_SIDE_OF_MANY)?;
        Ok(Self { media_type, data: STANDARD.encode(bytes), bytes: bytes.len() })
    }
}

/// Checks the width and the height of an image.
pub fn check_size(bytes: &[u8], max_side: usize) -> Result<(), String> {
    let ImageSize { width, height } =
        blob_size(bytes).map_err(|_| "is an image without a readable size".to_owned())?;
    if width == 0 || height == 0 {
        return Err(format!("is an image of {width}x{height} pixels"));
    }
    if width > max_side || height > max_side {
        return Err(format!(
            "is {width}x{height} pixels; at most {max_side}x{max_side} is allowed"
        ));
    }
    Ok(())
}

/// The media type of an image that the model accepts, by its first bytes.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let types = [
        (ImageType::Png, "image/png"),
        (ImageType::Jpeg, "image/jpeg"),
        (ImageType::Gif, "image/gif"),
        (ImageType::Webp, "image/webp"),
    ];
    let found = image_type(bytes).ok()?;
    types.into_iter().find(|(kind, _)| *kind == found).map(|(_, name)| name)
}

/// The longer side of a valid image, in pixels.
pub fn longer_side(data: &str) -> usize {
    let size = |data: &str| blob_size(&decode(data).ok()?).ok();
    // The size is at the beginning; in a JPEG it follows the camera's metadata.
    let size = data.get(..HEAD).and_then(size).or_else(|| size(data));
    size.map_or(0, |ImageSize { width, height }| width.max(height))
}

/// Decodes padded base64 of the standard alphabet; other characters are errors.
pub fn decode(data: &str) -> Result<Vec<u8>, String> {
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

    #[test]
    fn an_image_of_a_tool_is_bounded() {
        let image = Image::read(&png(2000, 1)).unwrap();
        assert_eq!((image.media_type, image.bytes), ("image/png", 29));
        assert_eq!(STANDARD.decode(image.data).unwrap(), png(2000, 1));
        let large = [png(1, 1), vec![0; MAX_TOOL_IMAGE]].concat();
        for (bytes, problem) in [
            (png(1, 2001), "is 1x2001 pixels; at most 2000x2000 is allowed"),
            (png(0, 1), "is an image of 0x1 pixels"),
            (png(1, 1)[..16].to_vec(), "is an image without a readable size"),
            (b"<svg/>".to_vec(), "is not an image in PNG, JPEG, GIF or WebP"),
            (large, "has 3932189 bytes; at most 3932160 are allowed"),
        ] {
            assert_eq!(Image::read(&bytes).unwrap_err(), problem);
        }
    }
}
