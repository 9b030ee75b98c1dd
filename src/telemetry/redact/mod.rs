//! Redaction of log lines: the secrets of the process, and texts that look like secrets.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use aho_corasick::{AhoCorasick, BuildError, Input, Match, MatchKind};

use super::shapes::SHAPES;

/// The replacement of a secret.
const MASK: &[u8] = b"***";
/// Minimum length of a redacted secret in bytes. A shorter one occurs in lines by chance, and
/// masking it everywhere would reveal it.
const MIN_SECRET: usize = 8;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Text,
    /// One JSON object per line, which remains valid JSON after redaction.
    Json,
}

/// Redacts secrets in lines.
#[derive(Debug)]
pub struct Redactor {
    /// The openings of [`SHAPES`], in their order, followed by the secrets.
    search: AhoCorasick,
    form: Form,
}

impl Redactor {
    /// Creates a redactor for these secrets.
    pub fn new<'a>(secrets: impl Iterator<Item = &'a str>, form: Form) -> Result<Self, BuildError> {
        let long = secrets.filter(|secret| secret.len() >= MIN_SECRET);
        let spellings: BTreeSet<String> = long.flat_map(|secret| spellings(secret, form)).collect();
        let openings = SHAPES.iter().map(|shape| shape.opening.to_owned());
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(openings.chain(spellings))?;
        Ok(Self { search, form })
    }

    /// Replaces each secret in a line by a mask.
    pub fn redact<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        let secrets = self.secrets(line);
        if secrets.is_empty() {
            return line.into();
        }
        let (mut redacted, mut copied) = (Vec::with_capacity(line.len()), 0);
        for secret in secrets {
            if secret.start > copied || copied == 0 {
                redacted.extend_from_slice(line.get(copied..secret.start).unwrap_or_default());
                redacted.extend_from_slice(MASK);
            }
            copied = copied.max(secret.end);
        }
        redacted.extend_from_slice(line.get(copied..).unwrap_or_default());
        redacted.into()
    }

    /// Returns the ranges of secrets, sorted by their start. They may overlap: another secret may
    /// follow `Bearer`.
    fn secrets(&self, line: &[u8]) -> Vec<Range<usize>> {
        let mut secrets: Vec<Range<usize>> = Vec::new();
        // The range that ends last: of all, and of those before the start of that range.
        let (mut at, mut furthest, mut before) = (0, 0..0, 0..0);
        while let Some(found) = self.search.find(Input::new(line).range(at..)) {
            at = found.start() + 1;
            let is_within =
                |secret: &Range<usize>| secret.start <= found.start() && found.end() < secret.end;
            // An opening within a secret is skipped; otherwise a line of only openings would take
            // quadratic time. An opening before a secret may start another one: a user name before
            // a password.
            if is_within(&furthest) || is_within(&before) {
                continue;
            }
            if let Some(secret) = self.secret(line, &found) {
                if secret.end > furthest.end {
                    furthest = secret.clone();
                } else if secret.end > before.end {
                    before = secret.clone();
                }
                secrets.push(secret);
            }
        }
        secrets.sort_by_key(|secret| secret.start);
        secrets
    }

    /// Redacts a text.
    pub fn redact_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact(text.as_bytes())).into_owned()
    }

    fn secret(&self, line: &[u8], found: &Match) -> Option<Range<usize>> {
        if let Some(shape) = SHAPES.get(found.pattern().as_usize()) {
            let secret = (shape.secret)(line.get(found.end()..)?)?;
            return Some(found.end() + secret.start..found.end() + secret.end);
        }
        let of_escape = match self.form {
            Form::Text => 0,
            Form::Json => rest_of_escape(line, found.start()),
        };
        let secret = found.start() + of_escape..found.end();
        (!secret.is_empty()).then_some(secret)
    }
}

/// Returns the number of bytes at a position that belong to a JSON escape that starts before it:
/// `\n` or `\u001b` must remain complete.
fn rest_of_escape(line: &[u8], place: usize) -> usize {
    let before = line.get(place.saturating_sub(5)..place).unwrap_or_default();
    let Some(distance) = before.iter().rev().position(|byte| *byte == b'\\') else { return 0 };
    let head = line.get(..place - distance).unwrap_or_default();
    let backslashes = head.iter().rev().take_while(|byte| **byte == b'\\').count();
    if backslashes % 2 == 0 {
        return 0;
    }
    let length: usize = if line.get(head.len()) == Some(&b'u') { 5 } else { 1 };
    length.saturating_sub(distance)
}

/// The spellings of a secret in a line: verbatim, as Rust's `Debug`, in a URL, and in JSON.
fn spellings(secret: &str, form: Form) -> Vec<String> {
    let printed = unquoted(&format!("{secret:?}"));
    let mut all = vec![secret.to_owned(), printed, in_url(secret), in_json(secret)];
    if form == Form::Json {
        // Verbatim, they would also match across the JSON syntax of the line itself.
        all = all.iter().map(|text| in_json(text)).collect();
    }
    all
}

fn in_json(text: &str) -> String {
    unquoted(&serde_json::Value::from(text).to_string())
}

fn unquoted(text: &str) -> String {
    text.get(1..text.len() - 1).unwrap_or_default().to_owned()
}

fn in_url(text: &str) -> String {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut all = String::new();
    for byte in text.bytes() {
        match byte {
            byte if is_kept(byte) => all.push(char::from(byte)),
            byte => {
                let _ = write!(all, "%{byte:02X}");
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
