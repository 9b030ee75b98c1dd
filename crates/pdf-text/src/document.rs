//! A document as text.

use hayro_syntax::page::Page;
use hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use serde::{Deserialize, Serialize};

use super::content::ContentReader;
use super::layout;

/// Maximum number of pages.
pub(super) const MAX_PAGES: usize = 2000;

/// Maximum length of a title in characters.
const MAX_TITLE: usize = 300;

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The title in the document's metadata.
    pub title: Option<String>,
    /// The text of each page that was read.
    pub pages: Vec<String>,
    /// The number of pages that were not read, or not completely.
    pub left_out: usize,
}

impl Document {
    /// The text, with page numbers if there are several pages.
    pub fn with_page_numbers(&self) -> String {
        let title = self.title.iter().map(|title| format!("Title: {title}"));
        let pages = (1..).zip(&self.pages).map(|(number, page)| match self.pages.len() {
            1 => page.clone(),
            _ if page.is_empty() => format!("[page {number}]"),
            _ => format!("[page {number}]\n\n{page}"),
        });
        let rest = (self.left_out > 0)
            .then(|| format!("[{} pages are left out, or their ends]", self.left_out));
        title.chain(pages).chain(rest).collect::<Vec<_>>().join("\n\n")
    }

    /// The text without page numbers.
    pub fn text(&self) -> String {
        self.pages.join("\n\n")
    }
}

/// The reason that a document has no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ExtractError {
    /// The structure cannot be parsed.
    #[error("it is damaged or not a PDF")]
    Damaged,
    /// It needs a password.
    #[error("it is encrypted and needs a password")]
    Encrypted,
    /// Its encryption is not supported.
    #[error("it is encrypted in a direction that is not known")]
    UnknownCipher,
    /// It has only images, such as a scan.
    #[error("it has no text, only images")]
    OnlyImages,
    /// It has no content.
    #[error("it has no text")]
    Empty,
    /// Its fonts draw glyphs without a meaning.
    #[error("its fonts do not define which characters they show")]
    Unnamed,
}

/// Extracts the text of a document, at most `max_bytes` of it.
pub fn extract(bytes: Vec<u8>, max_bytes: usize) -> Result<Document, ExtractError> {
    let pdf = Pdf::new(bytes).map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => ExtractError::Encrypted,
        LoadPdfError::Decryption(
            DecryptionError::MissingIDEntry
            | DecryptionError::InvalidEncryption
            | DecryptionError::UnsupportedAlgorithm,
        ) => ExtractError::UnknownCipher,
        LoadPdfError::Invalid => ExtractError::Damaged,
    })?;
    let title =
        pdf.metadata().title.as_deref().map(decode_string).filter(|title| !title.is_empty());
    let mut reading = Reading { left: max_bytes, ..Reading::default() };
    let mut reader = ContentReader::new();
    let all = pdf.pages().len();
    for page in pdf.pages().iter().take(MAX_PAGES) {
        if !reading.take(&mut reader, page) {
            break;
        }
    }
    reading.check()?;
    let whole = reading.pages.len() - usize::from(reading.is_cut);
    Ok(Document { title, left_out: all - whole, pages: reading.pages })
}

#[derive(Debug, Default)]
struct Reading {
    pages: Vec<String>,
    /// The remaining bytes of text.
    left: usize,
    is_cut: bool,
    letters: usize,
    /// The number of letters without a meaning.
    unnamed: usize,
    has_image: bool,
}

impl Reading {
    /// Reads a page. Returns false when the limit is reached.
    fn take<'a>(&mut self, reader: &mut ContentReader<'a>, page: &Page<'a>) -> bool {
        let content = reader.read(page);
        self.has_image |= content.has_image;
        self.letters += content.letters.len() + content.lost;
        self.unnamed += content.lost;
        self.unnamed += content.letters.iter().filter(|letter| letter.text.is_none()).count();
        let mut text = layout::text(&content.letters);
        self.is_cut = text.len() > self.left;
        text.truncate(text.floor_char_boundary(self.left));
        self.left -= text.len();
        self.pages.push(text);
        !self.is_cut
    }

    fn check(&self) -> Result<(), ExtractError> {
        let is_blank = self.pages.iter().all(|page| page.trim().is_empty());
        if self.unnamed * 2 > self.letters {
            Err(ExtractError::Unnamed)
        } else if is_blank && self.has_image {
            Err(ExtractError::OnlyImages)
        } else if is_blank {
            Err(ExtractError::Empty)
        } else {
            Ok(())
        }
    }
}

/// Decodes a string of the document to one line: UTF-16 or UTF-8 with a byte order mark, else
/// Latin-1, which approximates `PDFDocEncoding`.
fn decode_string(bytes: &[u8]) -> String {
    let text = match bytes {
        [0xfe, 0xff, units @ ..] => {
            let units = units.as_chunks::<2>().0.iter().map(|unit| u16::from_be_bytes(*unit));
            char::decode_utf16(units).map(|letter| letter.unwrap_or('\u{fffd}')).collect()
        }
        [0xef, 0xbb, 0xbf, text @ ..] => String::from_utf8_lossy(text).into_owned(),
        latin => latin.iter().map(|byte| char::from(*byte)).collect(),
    };
    let plain = text.replace(char::is_control, " ");
    let title = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    title.chars().take(MAX_TITLE).collect()
}
