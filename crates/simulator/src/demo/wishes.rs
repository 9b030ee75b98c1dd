//! What the user wants done, by simple rules on the words.

use serde_json::{Value, json};

use super::asking;
use super::paths::{bare, is_absolute, is_file, is_zone};

/// What stands before the name of a folder.
const PLACES: [&str; 4] = ["in", "of", "under", "inside"];

/// One thing to do, and the tool that does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
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

/// The wishes of one step: `and then` begins a new one.
pub(super) fn step(text: &str, number: usize) -> Vec<Wish> {
    let steps = text.split(" and then ").flat_map(|part| part.split(", then "));
    steps.map(wishes).filter(|wishes| !wishes.is_empty()).nth(number).unwrap_or_default()
}

fn wishes(text: &str) -> Vec<Wish> {
    let (asked, rest) = asking::wishes(text);
    let (write, rest) = write(&rest);
    let words: Vec<&str> = rest.split_whitespace().map(bare).collect();
    let mut wishes: Vec<Wish> = asked.into_iter().chain(write).collect();
    for path in files(&words) {
        let read = Wish::Read { path: path.to_owned() };
        if !wishes.contains(&read) {
            wishes.push(read);
        }
    }
    let lower = rest.to_lowercase();
    wishes.extend(list(&words, wishes.is_empty()));
    wishes.extend(time(&lower, &words));
    wishes
}

/// The files that are named. An absolute path is one where it is to be read, whatever its name, and
/// none where it is to be listed.
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

/// `write <content> to <file>` or `write <file>: <content>`, and the text without it.
fn write(text: &str) -> (Option<Wish>, String) {
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

fn writing(path: &str, content: &str) -> Wish {
    let content = content.trim().trim_matches(|c| matches!(c, '"' | '\'' | '`' | '“' | '”'));
    Wish::Write { path: bare(path.trim()).to_owned(), content: content.to_owned() }
}

/// The text before and after the first occurrence of `word`, in any case.
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

/// `list` always; `files` and the like when no file is named.
fn list(words: &[&str], alone: bool) -> Option<Wish> {
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
    Some(Wish::List { path: path.map(|path| (*path).to_owned()) })
}

fn time(lower: &str, words: &[&str]) -> Option<Wish> {
    let phrases =
        ["what time", "the time", "time is it", "current time", "time in", "clock", "time zone"];
    if !phrases.iter().any(|phrase| lower.contains(phrase)) {
        return None;
    }
    let zone = words.iter().find(|word| is_zone(word)).copied().unwrap_or("UTC");
    Some(Wish::Time { zone: zone.to_owned() })
}

impl Wish {
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

    /// The tool's input.
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

    /// The wish after "I will".
    pub(super) fn plan(&self) -> String {
        match self {
            Self::Read { path } => format!("read {path}"),
            Self::List { path: None } => "list the files".to_owned(),
            Self::List { path: Some(path) } => format!("list the files in {path}"),
            Self::Time { zone } => format!("look at the clock for {zone}"),
            Self::Write { path, .. } => format!("write {path}"),
            Self::Search { query } => format!("search the courses for \"{query}\""),
            Self::Outline { course } => format!("look up the outline of \"{course}\""),
            Self::Fetch { url } => format!("fetch {url}"),
            Self::Task { .. } => "give a task to a sub-agent".to_owned(),
            Self::Call { name, .. } => format!("call {name}"),
        }
    }
}
