//! The URLs in a text.

use std::collections::HashSet;
use std::iter::successors;

use reqwest::Url;

/// The URL schemes that are searched for.
const SCHEMES: [&str; 2] = ["https", "http"];
/// Punctuation that often follows a URL without being part of it.
const TRAILING_PUNCTUATION: [char; 16] =
    ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '*', '_', '`', '|', '\'', '\u{2019}'];
/// Maximum number of trailing punctuation characters that are stripped.
const MAX_TRAILING: usize = 8;
/// Characters that are valid in a URL but may also end it.
const POSSIBLE_ENDS: [char; 6] = [')', ']', '}', '|', '`', '*'];

/// Returns the URLs in a text. Each occurrence yields several candidates, one for each position at
/// which the URL may end.
pub(in crate::tools) fn addresses(text: &str) -> impl Iterator<Item = Url> {
    words(text).flat_map(|(_, word)| candidates(word).filter_map(normalized_url))
}

/// Replaces the URLs in a text that are not known. The URLs that [`addresses`] returns for the
/// result are all known: text that follows a known URL, and would be read as a part of it, is
/// separated from it by angle brackets.
pub(in crate::tools) fn replace_unknown_addresses(
    text: &str,
    known: &HashSet<Url>,
    replacement: &str,
) -> String {
    let are_known = |part: &str| addresses(part).all(|url| known.contains(&url));
    let is_known = |part: &str| normalized_url(part).is_some_and(|url| known.contains(&url));
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, word)) = words(rest).next() {
        replaced.push_str(rest.get(..start).unwrap_or_default());
        let length = if are_known(word) {
            replaced.push_str(word);
            word.len()
        } else if let Some(url) = candidates(word)
            .filter(|part| is_known(part) && are_known(part))
            .min_by_key(|part| unpaired_parentheses(part))
        {
            replaced.extend(["<", url, ">"]);
            url.len()
        } else {
            replaced.push_str(replacement);
            before_possible_end(word).trim_end_matches(TRAILING_PUNCTUATION).len()
        };
        rest = rest.get(start + length..).unwrap_or_default();
    }
    replaced.push_str(rest);
    replaced
}

/// Returns the words of a text that begin with a scheme, from the scheme on, with their positions.
/// A word may contain further ones.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = text.match_indices("://").filter_map(|(colon, _)| scheme_start(text, colon));
    starts.map(|at| {
        let rest = text.get(at..).unwrap_or_default();
        (at, rest.split(is_end).next().unwrap_or_default())
    })
}

/// Returns the start of the scheme, in any case, that ends at this colon.
fn scheme_start(text: &str, colon: usize) -> Option<usize> {
    let before = text.get(..colon).unwrap_or_default();
    SCHEMES.iter().find_map(|scheme| {
        let start = colon.checked_sub(scheme.len())?;
        before.get(start..)?.eq_ignore_ascii_case(scheme).then_some(start)
    })
}

/// Returns the words of a text that could be URLs without a scheme.
pub(super) fn bare_addresses(text: &str) -> impl Iterator<Item = Url> {
    let words = text.split(is_end).filter(|word| word.contains('.') && !word.contains("://"));
    words.flat_map(|word| {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        candidates(word).filter_map(|end| normalized_url(&format!("https://{end}")))
    })
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>')
}

/// Returns the prefixes of a text at which a URL may end, beginning with the whole text.
fn candidates(whole: &str) -> impl Iterator<Item = &str> {
    [whole, before_possible_end(whole)].into_iter().flat_map(|text| {
        successors(Some(text), |text| text.strip_suffix(TRAILING_PUNCTUATION)).take(MAX_TRAILING)
    })
}

/// Returns the number of parentheses without a counterpart, such as that of a Markdown link.
fn unpaired_parentheses(part: &str) -> usize {
    part.matches('(').count().abs_diff(part.matches(')').count())
}

fn before_possible_end(word: &str) -> &str {
    word.split(POSSIBLE_ENDS).next().unwrap_or_default()
}

/// Parses and normalizes a URL: removes the fragment, which is never sent, and replaces `http` on
/// the default port with `https`.
pub(super) fn normalized_url(address: &str) -> Option<Url> {
    let mut url = Url::parse(address).ok()?;
    url.set_fragment(None);
    if url.scheme() == "http" && url.port().is_none() {
        url.set_scheme("https").ok()?;
    }
    Some(url)
}
