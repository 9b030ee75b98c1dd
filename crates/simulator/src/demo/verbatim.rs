//! Intents whose text goes to the tool unchanged: a query, a URL, an input.

use serde_json::json;

use super::intents::{Intent, split_word};
use super::paths::bare;

const SEARCHES: [&str; 3] =
    ["search the courses for ", "search all courses for ", "look in the courses for "];
const OUTLINES: [&str; 2] = ["outline of the course ", "outline of course "];
const TASKS: [&str; 3] = ["ask a sub-agent to ", "have a sub-agent ", "tell a sub-agent to "];
const SCHEMES: [&str; 2] = ["https://", "http://"];

/// Returns the intents of this kind, and the text without them.
pub(super) fn intents(text: &str) -> (Vec<Intent>, String) {
    let (call, rest) = call(text);
    let mut intents: Vec<Intent> = call.into_iter().collect();
    let mut rest = rest;
    while let (Some(prompts), left) = quoted(&rest, &TASKS) {
        let prompts = prompts.split(" and ask a sub-agent to ").map(str::to_owned);
        intents.extend(prompts.map(|prompt| Intent::Task { prompt }));
        rest = left;
    }
    let (query, rest) = quoted(&rest, &SEARCHES);
    intents.extend(query.map(|query| Intent::Search { query }));
    let (course, rest) = quoted(&rest, &OUTLINES);
    intents.extend(course.map(|course| Intent::Outline { course }));
    if split_word(&rest, "fetch").is_some() {
        let words = rest.split_whitespace().map(bare);
        let urls = words.filter(|word| SCHEMES.iter().any(|scheme| word.starts_with(scheme)));
        intents.extend(urls.map(|url| Intent::Fetch { url: url.to_owned() }));
    }
    (intents, rest)
}

/// Parses `call <tool> with <JSON>`; without JSON the input is an empty object. The second value is
/// the text without the call.
fn call(text: &str) -> (Option<Intent>, String) {
    let none = || (None, text.to_owned());
    let Some((before, after)) = split_word(text, "call") else { return none() };
    let Some(word) = after.split_whitespace().next() else { return none() };
    let after = after.trim_start().get(word.len()..).unwrap_or_default();
    let (input, after) = after
        .split_once('{')
        .and_then(|(_, behind)| {
            let end = behind.rfind('}')?;
            let input = serde_json::from_str(&format!("{{{}", behind.get(..=end)?)).ok()?;
            Some((input, behind.get(end + 1..)?))
        })
        .unwrap_or((json!({}), after));
    let name = bare(word).to_owned();
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !is_name {
        return none();
    }
    (Some(Intent::Call { name, input }), format!("{before} {after}"))
}

/// Returns the text from one of these phrases to the end of the sentence, and the text without
/// both.
fn quoted(text: &str, phrases: &[&str]) -> (Option<String>, String) {
    let lower = text.to_ascii_lowercase();
    let found = phrases.iter().find_map(|phrase| Some((lower.find(phrase)?, phrase.len())));
    let parts = found.and_then(|(at, length)| Some((text.get(..at)?, text.get(at + length..)?)));
    let Some((before, after)) = parts else { return (None, text.to_owned()) };
    let end = after.find(['?', '!', '\n']).or_else(|| after.find(". ")).unwrap_or(after.len());
    let (what, rest) = after.split_at_checked(end).unwrap_or((after, ""));
    let what = what.trim().trim_end_matches('.').trim_matches(['"', '\'', '`', '“', '”']);
    ((!what.is_empty()).then(|| what.to_owned()), format!("{before} {rest}"))
}
