//! Patterns of secrets of any origin.
//!
//! Each pattern begins with a rare opening. Only the bytes after an opening are inspected, and in
//! linear time, because an attacker may write a line that is meant to take long.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum length of a web token's header, in characters.
const MAX_HEAD: usize = 512;

/// A pattern of a secret.
pub(super) struct Shape {
    /// The opening, which is never masked.
    pub(super) opening: &'static str,
    /// Returns the range of the secret in the bytes after the opening, if they are one.
    pub(super) secret: fn(&[u8]) -> Option<Range<usize>>,
}

/// All patterns.
pub(super) const SHAPES: [Shape; 13] = [
    Shape { opening: OWN_KEY, secret: own_key },
    Shape { opening: "whsec_", secret: token },
    Shape { opening: "tst_", secret: token },
    Shape { opening: "sk-", secret: vendor_key },
    Shape { opening: "Bearer ", secret: bearer },
    Shape { opening: "bearer ", secret: bearer },
    Shape { opening: "BEARER ", secret: bearer },
    Shape { opening: "Basic ", secret: basic },
    Shape { opening: "basic ", secret: basic },
    Shape { opening: "BASIC ", secret: basic },
    Shape { opening: "eyJ", secret: web_token },
    Shape { opening: "://", secret: user_info },
    Shape { opening: "AKIA", secret: access_key },
];

const OWN_KEY: &str = "tsk_";

/// A key of this service; its id is not masked.
fn own_key(rest: &[u8]) -> Option<Range<usize>> {
    let id = run(rest, |byte| byte.is_ascii_alphanumeric());
    let secret = rest.get(id..)?.strip_prefix(b"_")?;
    some(id + 1, run(secret, is_word))
}

/// A webhook secret or a ticket.
fn token(rest: &[u8]) -> Option<Range<usize>> {
    let length = run(rest, |byte| is_word(byte) || matches!(byte, b'+' | b'/' | b'='));
    if length < 8 { None } else { some(0, length) }
}

/// A key of a model vendor.
fn vendor_key(rest: &[u8]) -> Option<Range<usize>> {
    let length = run(rest, is_word);
    match rest.strip_prefix(b"ant-") {
        Some(rest) => some(4, run(rest, is_word)),
        None if length >= 20 => some(0, length),
        None => None,
    }
}

fn bearer(rest: &[u8]) -> Option<Range<usize>> {
    let blank = run(rest, |byte| byte == b' ');
    let value = rest.get(blank..)?;
    let length =
        run(value, |byte| is_word(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'='));
    let own = value.strip_prefix(OWN_KEY.as_bytes()).and_then(own_key);
    let from = own.map_or(0, |secret| OWN_KEY.len() + secret.start);
    some(blank + from, length.saturating_sub(from))
}

/// Basic credentials, which are long or contain a colon. Other short words may follow `Basic` in
/// a sentence.
fn basic(rest: &[u8]) -> Option<Range<usize>> {
    let blank = run(rest, |byte| byte == b' ');
    let value = rest.get(blank..)?;
    let length = run(value, |byte| is_word(byte) || matches!(byte, b'+' | b'/' | b'='));
    let decoded = STANDARD.decode(value.get(..length / 4 * 4)?).unwrap_or_default();
    if length >= 16 || decoded.contains(&b':') { some(blank, length) } else { None }
}

/// A JSON Web Token with its signature.
fn web_token(rest: &[u8]) -> Option<Range<usize>> {
    let head = run(rest.get(..MAX_HEAD).unwrap_or(rest), is_word);
    let claims = run(rest.get(head..)?.strip_prefix(b".")?, is_word);
    if claims == 0 {
        return None;
    }
    let end = head + 1 + claims;
    let signature = rest.get(end..)?.strip_prefix(b".").map_or(0, |rest| 1 + run(rest, is_word));
    some(0, end + signature)
}

/// The password in a URL, or a user name that looks like one.
fn user_info(rest: &[u8]) -> Option<Range<usize>> {
    let authority = rest.get(..run(rest, is_of_authority))?;
    let end = authority.iter().rposition(|byte| *byte == b'@')?;
    let user = authority.get(..end)?;
    let name = run(user, |byte| byte != b':');
    if name == end {
        let is_random = end >= 16 && user.iter().any(u8::is_ascii_digit);
        return if is_random { some(0, end) } else { None };
    }
    some(name + 1, end - name - 1)
}

/// An AWS access key id.
fn access_key(rest: &[u8]) -> Option<Range<usize>> {
    let length = run(rest, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if length < 16 { None } else { some(0, length) }
}

/// Returns the length of the prefix whose bytes satisfy `is_part`.
fn run(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is_part(**byte)).count()
}

fn some(start: usize, length: usize) -> Option<Range<usize>> {
    (length > 0).then_some(start..start + length)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_of_authority(byte: u8) -> bool {
    byte > b' ' && !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>')
}
