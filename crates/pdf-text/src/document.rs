//! A document as text.

use hayro_syntax::page::Page;
use hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use serde::{Deserialize, Serialize};

use super::content::Looker;
use super::layout;

/// Pages that are read.
pub(super) const MAX_PAGES: usize = 2000;

/// Letters of a title that are told.
const MAX_TITLE: usize = 300;

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// What it calls itself.
    pub title: Option<String>,
    /// The text of each page, as far as they were read.
    pub pages: Vec<String>,
    /// Pages that were not read, or not to their ends.
    pub left_out: usize,
}

impl Document {
    /// The text, with the numbers of the pages where there are several.
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

    /// The text alone.
    pub fn text(&self) -> String {
        self.pages.join("\n\n")
    }
}

/// Why a document has no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum NoText {
    /// Nothing in it can be followed.
    #[error("it is damaged, or no PDF")]
    Damaged,
    /// Nobody reads it without a password.
    #[error("it is encrypted, and needs a password")]
    Encrypted,
    /// By means that are not known.
    #[error("it is encrypted in a way that is not known")]
    UnknownCipher,
    /// A scan, perhaps.
    #[error("it has no text, only images")]
    OnlyImages,
    /// There is nothing.
    #[error("it has no text")]
    Empty,
    /// There are only drawings of letters.
    #[error("its fonts do not say which letters they show")]
    Unnamed,
}

/// Extracts the text of a document, at most `max_bytes` of it.
pub fn extract(bytes: Vec<u8>, max_bytes: usize) -> Result<Document, NoText> {
    let pdf = Pdf::new(bytes).map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => NoText::Encrypted,
        LoadPdfError::Decryption(
            DecryptionError::MissingIDEntry
            | DecryptionError::InvalidEncryption
            | DecryptionError::UnsupportedAlgorithm,
        ) => NoText::UnknownCipher,
        LoadPdfError::Invalid => NoText::Damaged,
    })?;
    let title = pdf.metadata().title.as_deref().map(words).filter(|title| !title.is_empty());
    let mut reading = Reading { left: max_bytes, ..Reading::default() };
    let mut looker = Looker::new();
    let all = pdf.pages().len();
    for page in pdf.pages().iter().take(MAX_PAGES) {
        if !reading.take(&mut looker, page) {
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
    /// Bytes that may still come.
    left: usize,
    is_cut: bool,
    letters: usize,
    /// Letters whose fonts do not say what they are.
    unnamed: usize,
    has_image: bool,
}

impl Reading {
    /// Reads a page, and says whether there is room for another.
    fn take<'a>(&mut self, looker: &mut Looker<'a>, page: &Page<'a>) -> bool {
        let seen = looker.look(page);
        self.has_image |= seen.has_image;
        self.letters += seen.letters.len() + seen.lost;
        self.unnamed += seen.lost;
        self.unnamed += seen.letters.iter().filter(|letter| letter.text.is_none()).count();
        let mut text = layout::text(&seen.letters);
        self.is_cut = text.len() > self.left;
        text.truncate(text.floor_char_boundary(self.left));
        self.left -= text.len();
        self.pages.push(text);
        !self.is_cut
    }

    fn check(&self) -> Result<(), NoText> {
        let is_blank = self.pages.iter().all(|page| page.trim().is_empty());
        if self.unnamed * 2 > self.letters {
            Err(NoText::Unnamed)
        } else if is_blank && self.has_image {
            Err(NoText::OnlyImages)
        } else if is_blank {
            Err(NoText::Empty)
        } else {
            Ok(())
        }
    }
}

/// A text of the document's own, on one line: in UTF-16 or UTF-8 if it begins so, else as Latin 1,
/// which is close enough to what it is then.
fn words(bytes: &[u8]) -> String {
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
