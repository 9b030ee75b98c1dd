//! Text files: decoding for the model and changes that preserve the rest of the file.

pub(in crate::tools) mod edits;
pub(in crate::tools) mod numbered;
pub(in crate::tools) mod snippets;

use super::error::ToolError;

/// The number of leading bytes in which a NUL marks a file as binary.
const HEAD: usize = 8 * 1024;
const UTF8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
const LITTLE_MARK: [u8; 2] = [0xff, 0xfe];
const BIG_MARK: [u8; 2] = [0xfe, 0xff];

/// The encoding of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf8Marked,
    Utf16Little,
    Utf16Big,
    /// Neither UTF-8 nor UTF-16: invalid bytes are shown as replacement characters.
    Unknown,
}

/// A decoded text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) struct TextFile {
    encoding: Encoding,
    /// The text, without the byte order mark and with the line ends of the file.
    pub(in crate::tools) text: String,
}

impl TextFile {
    /// Returns an empty file, for a path that does not exist yet.
    pub(in crate::tools) fn new() -> Self {
        Self { encoding: Encoding::Utf8, text: String::new() }
    }

    /// Decodes UTF-8, UTF-16 with a byte order mark, and other files that contain no NUL.
    pub(in crate::tools) fn read(path: &str, bytes: &[u8]) -> Result<Self, ToolError> {
        let not_text = || ToolError::Failed(format!("{path} is not a text file"));
        for (mark, encoding, unit) in [
            (LITTLE_MARK, Encoding::Utf16Little, u16::from_le_bytes as fn([u8; 2]) -> u16),
            (BIG_MARK, Encoding::Utf16Big, u16::from_be_bytes),
        ] {
            if let Some(rest) = bytes.strip_prefix(&mark) {
                let (pairs, odd) = rest.as_chunks();
                let units: Vec<u16> = pairs.iter().copied().map(unit).collect();
                let text = String::from_utf16(&units).map_err(|_| not_text())?;
                return if odd.is_empty() { Ok(Self { encoding, text }) } else { Err(not_text()) };
            }
        }
        if bytes.iter().take(HEAD).any(|byte| *byte == 0) {
            return Err(not_text());
        }
        let (rest, encoding) = match bytes.strip_prefix(&UTF8_MARK) {
            Some(rest) => (rest, Encoding::Utf8Marked),
            None => (bytes, Encoding::Utf8),
        };
        Ok(match std::str::from_utf8(rest) {
            Ok(text) => Self { encoding, text: text.to_owned() },
            Err(_) => Self {
                encoding: Encoding::Unknown,
                text: String::from_utf8_lossy(rest).into_owned(),
            },
        })
    }

    /// Returns whether encoding the text restores the file's bytes.
    pub(in crate::tools) fn is_exact(&self) -> bool {
        self.encoding != Encoding::Unknown
    }

    /// Encodes a text in this file's encoding. A file of unknown encoding becomes UTF-8.
    pub(in crate::tools) fn bytes_of(&self, text: &str) -> Vec<u8> {
        let pairs = |mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| {
            mark.into_iter().chain(text.encode_utf16().flat_map(bytes)).collect()
        };
        match self.encoding {
            Encoding::Utf8 | Encoding::Unknown => text.as_bytes().to_vec(),
            Encoding::Utf8Marked => [&UTF8_MARK, text.as_bytes()].concat(),
            Encoding::Utf16Little => pairs(LITTLE_MARK, u16::to_le_bytes),
            Encoding::Utf16Big => pairs(BIG_MARK, u16::to_be_bytes),
        }
    }
}

#[cfg(test)]
mod tests;
