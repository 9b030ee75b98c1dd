//! The intents of a user's text, found by simple rules on its words.

use serde_json::{Value, json};

use super::paths::{bare, is_absolute, is_file, is_zone};
use super::verbatim;

/// The prepositions before the name of a folder.
const PLACES: [&str; 4] = ["in", "of", "under", "inside"];

/// One action that the user asks for, with the input of its tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    Read { path: String },
    List { path: Option<String> },
    Time { zone: String },
    Write { path: String, content: String },
    Search { query: String },
    Outline { course: String },
    Fetch { url: String },
    Task { prompt: String },
    Call { name: String, input: Value },
}

/// Returns the intents of step `number`; `and then` starts a new step.
pub(super) fn step(text: &str, number: usize) -> Vec<Intent> {
    let steps = text.split(" and then ").flat_map(|part| part.split(", then "));
    steps.map(intents).filter(|intents| !intents.is_empty()).nth(number).unwrap_or_default()
}

fn intents(text: &str) -> Vec<Intent> {
    let (asked, rest) = verbatim::intents(text);
    let (write, rest) = write(&rest);
    let words: Vec<&str> = rest.split_whitespace().map(bare).collect();
    let mut intents: Vec<Intent> = asked.into_iter().chain(write).collect();
    for path in files(&words) {
        let read = Intent::Read { path: path.to_owned() };
        if !intents.contains(&read) {
            intents.push(read);
        }
    }
    let lower = rest.to_lowercase();
    intents.extend(list(&words, intents.is_empty()));
    intents.extend(time(&lower, &words));
    intents
}

/// Returns the files that the text names. An absolute path counts as a file if the user wants to
/// read it, whatever its name, and not if the user wants to list it.
fn files<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let is = |word: &str, any: &[&str]| any.iter().any(|other| word.eq_ignore_ascii_case(other));
    let lists = words.iter().any(|word| is(word, &["list", "ls"]));
    let before = std::iter::once("").chain(words.iter().copied());
    let named = before.zip(words).filter(|(before, word)| {
        if !is_absolute(word) {
            return is_file(word);
        }
        let is_read = is(before, &["read", "explain", "open", "show", "cat"]);
        is_read || is_file(word) && !(lists && is(before, &PLACES))
    });
    named.map(|(_, word)| *word).collect()
}

/// Parses `write <content> to <file>` or `write <file>: <content>`. The second value is the text
/// without it.
fn write(text: &str) -> (Option<Intent>, String) {
    let none = || (None, text.to_owned());
    let Some((before, after)) = split_word(text, "write") else {
        return none();
    };
    if let Some((path, content)) = after.split_once(':')
        && is_file(bare(path.trim()))
    {
        return (Some(writing(path, content)), before.to_owned());
    }
    for (at, _) in after.match_indices(" to ") {
        let (content, target) = (after.get(..at), after.get(at + 4..).unwrap_or_default());
        let path = target.split_whitespace().next().unwrap_or_default();
        if let Some(content) = content
            && is_file(bare(path))
        {
            let rest = target.trim_start().get(path.len()..).unwrap_or_default();
            return (Some(writing(path, content)), format!("{before} {rest}"));
        }
    }
    none()
}

fn writing(path: &str, content: &str) -> Intent {
    let content = content.trim().trim_matches(|c| matches!(c, '"' | '\'' | '`' | '“' | '”'));
    Intent::Write { path: bare(path.trim()).to_owned(), content: content.to_owned() }
}

/// Splits the text at the first occurrence of `word`, ignoring case.
pub(super) fn split_word<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let mut end = 0;
    for piece in text.split_inclusive(char::is_whitespace) {
        let start = end;
        end += piece.len();
        if piece.trim_end().eq_ignore_ascii_case(word) {
            return Some((text.get(..start)?, text.get(end..)?));
        }
    }
    None
}

/// Lists a folder on `list`, and on `files` and the like if the text names no file.
fn list(words: &[&str], alone: bool) -> Option<Intent> {
    let is = |word: &str, any: &[&str]| any.iter().any(|other| word.eq_ignore_ascii_case(other));
    let listed = words.iter().any(|word| is(word, &["list", "ls"]));
    let things = ["files", "folder", "folders", "directory", "directories"];
    let meant = alone && words.iter().any(|word| is(word, &things));
    if !(listed || meant) {
        return None;
    }
    let after = words.iter().skip_while(|word| !is(word, &PLACES)).skip(1);
    let filler = ["the", "this", "my", "your", "our", "a", "current", "working", "workspace"];
    let place = after.filter(|word| !is(word, &filler)).find(|word| !word.is_empty());
    let is_other = |word: &str| is(word, &things) || is_file(word) || is_zone(word);
    let path = place.filter(|word| is_absolute(word) || !is_other(word));
    Some(Intent::List { path: path.map(|path| (*path).to_owned()) })
}

fn time(lower: &str, words: &[&str]) -> Option<Intent> {
    let phrases =
        ["what time", "the time", "time is it", "current time", "time in", "clock", "time zone"];
    if !phrases.iter().any(|phrase| lower.contains(phrase)) {
        return None;
    }
    let zone = words.iter().find(|word| is_zone(word)).copied().unwrap_or("UTC");
    Some(Intent::Time { zone: zone.to_owned() })
}

impl Intent {
    /// The name of the tool.
    pub(super) fn tool(&self) -> &str {
        match self {
            Self::Read { .. } => "read_file",
            Self::List { .. } => "list_files",
            Self::Time { .. } => "get_time",
            Self::Write { .. } => "write_file",
            Self::Search { .. } => "search_course_content",
            Self::Outline { .. } => "get_course_outline",
            Self::Fetch { .. } => "WebFetch",
            Self::Task { .. } => "Task",
            Self::Call { name, .. } => name,
        }
    }

    /// The input of the tool.
    pub(super) fn input(&self) -> Value {
        match self {
            Self::Read { path } => json!({ "path": path }),
            Self::List { path: None } => json!({}),
            Self::List { path } => json!({ "path": path }),
            Self::Time { zone } => json!({ "timezone": zone }),
            Self::Write { path, content } => json!({ "path": path, "content": content }),
            Self::Search { query } => json!({ "query": query }),
            Self::Outline { course } => json!({ "course_name": course }),
            Self::Fetch { url } => json!({ "url": url }),
            Self::Task { prompt } => json!({ "description": "One task", "prompt": prompt }),
            Self::Call { input, .. } => input.clone(),
        }
    }

    /// The intent as a phrase after "I will".
    pub(super) fn plan(&self) -> String {
        match self {
            Self::Read { path } => format!("read {path}"),
            Self::List { path: None } => "list the files".to_owned(),
            Self::List { path: Some(path) } => format!("list the files in {path}"),
            Self::Time { zone } => format!("check the time in {zone}"),
            Self::Write { path, .. } => format!("write {path}"),
            Self::Search { query } => format!("search the courses for \"{query}\""),
            Self::Outline { course } => format!("get the outline of \"{course}\""),
            Self::Fetch { url } => format!("fetch {url}"),
            Self::Task { .. } => "start a sub-agent".to_owned(),
            Self::Call { name, .. } => format!("call {name}"),
        }
    }
}
