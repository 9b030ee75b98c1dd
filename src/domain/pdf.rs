//! A cheap check of a PDF: its signature, its encryption and its number of pages.
//!
//! A complete PDF parser would decompress untrusted data without a limit, and would delay a request
//! for checks that the model provider makes as well. This one scans the dictionaries in file order
//! and decompresses at most 8 MB of compressed objects. If it finds no page count,
//! the check is left to the provider.

use memchr::memmem::find;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

/// The limit on the decompressed size of all objects of a document, in bytes.
const MAX_INFLATED: usize = 8 * 1024 * 1024;
/// The number of bytes at the beginning in which readers search for the signature.
const HEAD: usize = 1024;

/// The result of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pdf {
    /// The number of pages, if it was found.
    pub pages: Option<usize>,
    /// True if the document may need a password.
    pub is_encrypted: bool,
}

/// The beginning of a PDF in base64.
pub const BASE64_HEAD: &str = "JVBER";

/// Scans a document; none if it is not a PDF.
pub fn read(bytes: &[u8]) -> Option<Pdf> {
    let head = bytes.get(..HEAD).unwrap_or(bytes);
    let begin = find(head, b"%PDF-")?;
    let mut scan = Scan { left: MAX_INFLATED, pages: None, is_encrypted: false };
    scan.objects(bytes.get(begin..)?, true);
    let Scan { pages, is_encrypted, .. } = scan;
    Some(Pdf { pages, is_encrypted })
}

/// A dictionary that is being read.
#[derive(Debug, Default)]
struct Dictionary<'a> {
    kind: &'a [u8],
    count: Option<usize>,
    has_root: bool,
    has_encrypt: bool,
    is_deflated: bool,
}

struct Scan {
    /// The number of bytes that may still be decompressed.
    left: usize,
    pages: Option<usize>,
    is_encrypted: bool,
}

impl Scan {
    /// Scans every dictionary, and compressed objects if `may_pack`.
    fn objects(&mut self, bytes: &[u8], may_pack: bool) {
        let mut tokens = Tokens { bytes, at: 0 };
        let mut open: Vec<Dictionary<'_>> = Vec::new();
        let mut closed = Dictionary::default();
        while let Some(token) = tokens.next() {
            match token {
                Token::Begin => open.push(Dictionary::default()),
                Token::End => {
                    closed = open.pop().unwrap_or_default();
                    self.take(&closed);
                }
                Token::Name(name) => {
                    if let Some(dictionary) = open.last_mut() {
                        dictionary.name(name, &mut tokens);
                    }
                }
                Token::Word(b"stream") => {
                    let rest = tokens.stream();
                    if may_pack && closed.kind == b"ObjStm" && closed.is_deflated {
                        self.unpack(rest);
                    }
                }
                Token::Word(_) => {}
            }
        }
    }

    fn take(&mut self, dictionary: &Dictionary<'_>) {
        // The trailer, or the dictionary of the stream that is in its place.
        self.is_encrypted |= dictionary.has_root && dictionary.has_encrypt;
        if dictionary.kind == b"Pages" {
            // The root of the tree counts all pages, and so more than any branch.
            self.pages = self.pages.max(dictionary.count);
        }
    }

    fn unpack(&mut self, packed: &[u8]) {
        let inflated = decompress_to_vec_zlib_with_limit(packed, self.left)
            .unwrap_or_else(|partial| partial.output);
        self.left = self.left.saturating_sub(inflated.len());
        self.objects(&inflated, false);
    }
}

impl<'a> Dictionary<'a> {
    fn name(&mut self, name: &[u8], tokens: &mut Tokens<'a>) {
        match name {
            b"Type" => {
                if let Some(Token::Name(kind)) = tokens.peek() {
                    self.kind = kind;
                }
            }
            b"Count" => self.count = tokens.number(),
            b"Root" => self.has_root = true,
            b"Encrypt" => self.has_encrypt = true,
            b"FlateDecode" => self.is_deflated = true,
            _ => {}
        }
    }
}

/// The tokens of a PDF that the scan needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// `<<`
    Begin,
    /// `>>`
    End,
    /// A name, without its slash.
    Name(&'a [u8]),
    /// Anything else without a space in it.
    Word(&'a [u8]),
}

#[derive(Debug, Clone)]
struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.clone().next()
    }

    /// A number that is not the beginning of a reference to an object.
    fn number(&self) -> Option<usize> {
        let mut ahead = self.clone();
        let number = |token| match token {
            Some(Token::Word(word)) => str::from_utf8(word).ok()?.parse().ok(),
            _ => None,
        };
        let count = number(ahead.next());
        if number(ahead.next()).is_some() { None } else { count }
    }

    /// Skips the data of a stream, and returns everything from its first byte on.
    fn stream(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let rest = rest.strip_prefix(b"\r").unwrap_or(rest);
        let data = rest.strip_prefix(b"\n").unwrap_or(rest);
        self.at = match find(data, b"endstream") {
            Some(end) => self.bytes.len() - data.len() + end,
            None => self.bytes.len(),
        };
        data
    }

    fn word(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let end = rest.iter().position(|byte| !is_regular(*byte)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Skips a string in parentheses, which may be nested.
    fn string(&mut self) {
        let mut depth = 0_usize;
        let mut is_escaped = false;
        for byte in self.rest() {
            self.at += 1;
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'(' => depth += 1,
                b')' if depth == 1 => return,
                b')' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            match self.rest() {
                [] => return None,
                [b'<', b'<', ..] => {
                    self.at += 2;
                    return Some(Token::Begin);
                }
                [b'>', b'>', ..] => {
                    self.at += 2;
                    return Some(Token::End);
                }
                [b'/', ..] => {
                    self.at += 1;
                    return Some(Token::Name(self.word()));
                }
                [b'(', ..] => self.string(),
                [b'%', comment @ ..] => {
                    let end = memchr::memchr2(b'\n', b'\r', comment);
                    self.at += 1 + end.unwrap_or(comment.len());
                }
                [byte, ..] if is_regular(*byte) => return Some(Token::Word(self.word())),
                [_, ..] => self.at += 1,
            }
        }
    }
}

/// Returns true if a byte can be part of a name or a number.
fn is_regular(byte: u8) -> bool {
    !matches!(
        byte,
        b'\0'
            | b'\t'
            | b'\n'
            | b'\x0c'
            | b'\r'
            | b' '
            | b'('
            | b')'
            | b'<'
            | b'>'
            | b'['
            | b']'
            | b'{'
            | b'}'
            | b'/'
            | b'%'
    )
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;

    fn looked(body: &[u8]) -> (Option<usize>, bool) {
        let bytes = [b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", body].concat();
        let Pdf { pages, is_encrypted } = read(&bytes).unwrap();
        (pages, is_encrypted)
    }

    fn packed(objects: &[u8]) -> Vec<u8> {
        let data = compress_to_vec_zlib(objects, 6);
        let head = format!(
            "1 0 obj <</Type/ObjStm /N 1/First 4/Filter[/FlateDecode]/Length {}>>\nstream\r\n",
            data.len()
        );
        [head.as_bytes(), &data, b"\nendstream endobj\n"].concat()
    }

    #[test]
    fn pages_are_counted_at_the_root_of_their_tree() {
        let table: [(&[u8], Option<usize>); 8] = [
            (b"1 0 obj << /Type /Pages /Count 2 /Kids [3 0 R] >> endobj", Some(2)),
            (b"<</Count 101/Kids[]/Type/Pages>>", Some(101)),
            (b"<</Type/Pages/Count 3>> <</Type/Pages/Count 7>> <</Type/Pages/Count 4>>", Some(7)),
            (b"<</Type/Pages/Resources<</Count 900>>/Count 3>>", Some(3)),
            (b"<</Type/Outlines/Count 900>> <</Type/Page>>", None),
            (b"<</Type/Pages/Count 5 0 R>>", None),
            (b"<</Type/Pages(/Count 9 \\) (a) /Count 9)/Count 1>>", Some(1)),
            (b"%<</Type/Pages/Count 9>>\n<</Type/Pages/Count 1>>", Some(1)),
        ];
        for (body, pages) in table {
            assert_eq!(looked(body), (pages, false), "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn compressed_objects_are_read() {
        assert_eq!(looked(&packed(b"7 0 <</Type/Pages/Count 12>>")), (Some(12), false));
        let other = b"1 0 obj <</Length 9>> stream\n<</Type/Pages/Count 9>>\nendstream endobj";
        assert_eq!(looked(other), (None, false), "the data of other streams is not");
        let two = [packed(b"<</Type/Pages/Count 2>>"), packed(b"<</Type/Pages/Count 5>>")].concat();
        assert_eq!(looked(&two), (Some(5), false));
        assert_eq!(looked(b"<</Type/ObjStm/Filter/FlateDecode>> stream\nno zlib"), (None, false));
    }

    #[test]
    fn decompression_stops_at_the_limit() {
        let mut bomb = vec![b' '; MAX_INFLATED];
        bomb.extend(b"<</Type/Pages/Count 9>>");
        assert_eq!(looked(&packed(&bomb)), (None, false));
    }

    #[test]
    fn an_encrypted_document_is_detected_by_its_trailer() {
        let trailer = b"trailer <</Size 9 /Root 1 0 R /Encrypt 8 0 R /ID[<0a><0b>]>>";
        assert_eq!(looked(trailer), (None, true));
        let stream =
            b"9 0 obj <</Type/XRef/Encrypt 8 0 R/Root 1 0 R/Length 4>> stream\nabcd\nendstream";
        assert_eq!(looked(stream), (None, true));
        assert_eq!(looked(b"<</Contents (/Root /Encrypt)>> <</Encrypt true>>"), (None, false));
    }

    #[test]
    fn data_without_a_pdf_signature_is_not_a_pdf() {
        for bytes in
            [&b""[..], b"PDF-1.7", b"<html>", &[vec![0; 1024], b"%PDF-1.7".into()].concat()]
        {
            assert_eq!(read(bytes), None);
        }
    }
}
