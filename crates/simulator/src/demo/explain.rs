//! The description of a file: its language, its size, its first line and its definitions.

use crate::phrases::{count, names, shorten};

/// Maximum number of names of each kind.
const MAX_NAMES: usize = 6;

/// Maximum length of a quoted line in characters.
const QUOTED: usize = 100;

const LANGUAGES: [(&str, &[&str]); 20] = [
    ("Rust", &["rs"]),
    ("Python", &["py", "pyi"]),
    ("JavaScript", &["js", "mjs", "cjs", "jsx"]),
    ("TypeScript", &["ts", "tsx"]),
    ("Go", &["go"]),
    ("Java", &["java"]),
    ("C", &["c", "h"]),
    ("C++", &["cc", "cpp", "hpp"]),
    ("Ruby", &["rb"]),
    ("shell script", &["sh", "bash"]),
    ("SQL", &["sql"]),
    ("Markdown", &["md", "markdown"]),
    ("TOML", &["toml"]),
    ("YAML", &["yml", "yaml"]),
    ("JSON", &["json"]),
    ("HTML", &["html", "htm"]),
    ("CSS", &["css"]),
    ("CSV", &["csv"]),
    ("configuration", &["ini", "cfg", "conf"]),
    ("plain text", &["txt", "log"]),
];

const MODIFIERS: [&str; 12] = [
    "pub",
    "pub(crate)",
    "pub(super)",
    "async",
    "unsafe",
    "export",
    "default",
    "public",
    "private",
    "static",
    "abstract",
    "final",
];

const FUNCTIONS: [&str; 4] = ["fn", "def", "func", "function"];

const TYPES: [&str; 7] = ["struct", "enum", "trait", "class", "interface", "type", "union"];

/// Describes the text of the file at `path`.
pub(super) fn file(path: &str, text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(without_number).collect();
    let Some(first) = lines.iter().find(|line| !line.trim().is_empty()) else {
        return format!("`{path}` is empty.");
    };
    let language = language(path);
    let size = count(lines.len(), "line", "lines");
    let mut said = vec![format!("`{path}` is {language}, {size} long.")];
    match opening(&lines) {
        Some(opening) => said.push(format!("It describes itself: \"{}\".", quote(opening))),
        None => said.push(format!("It begins with \"{}\".", quote(first))),
    }
    said.extend(contents(&lines, language));
    said.join(" ")
}

/// Removes the line number that a tool may have put before a line.
fn without_number(line: &str) -> &str {
    match line.split_once('→') {
        Some((number, rest)) if number.trim().parse::<u64>().is_ok() => rest,
        _ => line,
    }
}

fn language(path: &str) -> &'static str {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let known = LANGUAGES.iter().find(|(_, extensions)| extensions.contains(&extension));
    known.map_or("a text file", |(name, _)| name)
}

/// Returns the first comment or heading, if the file starts with one.
fn opening<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let has_text = |line: &&&str| {
        let line = line.trim();
        !(line.is_empty() || line.starts_with("#!") || line.starts_with("<?"))
    };
    let first = lines.iter().find(has_text)?.trim();
    if first.starts_with("#[") || first.starts_with("#include") || first.starts_with("#define") {
        return None;
    }
    let markers = ["//!", "///", "//", "/**", "/*", "<!--", "\"\"\"", "--", "#", ";"];
    let comment = markers.iter().find_map(|marker| first.strip_prefix(marker))?;
    let comment = comment.trim_start_matches('#').trim();
    let comment = comment.trim_end_matches("*/").trim_end_matches("-->").trim_end_matches("\"\"\"");
    (!comment.trim().is_empty()).then_some(comment.trim())
}

fn quote(line: &str) -> String {
    shorten(line.trim_end_matches('.'), QUOTED)
}

/// Returns a sentence on the definitions of the file, or on its last line if it has none.
fn contents(lines: &[&str], language: &str) -> Option<String> {
    let mut parts = Vec::new();
    if language == "Markdown" {
        let headings: Vec<String> = lines.iter().filter_map(|line| heading(line)).collect();
        push(&mut parts, "heading", "headings", &headings);
    } else if matches!(language, "TOML" | "configuration") {
        push(&mut parts, "section", "sections", &sections(lines));
    } else if !matches!(language, "plain text" | "CSV" | "a text file") {
        push(&mut parts, "type", "types", &definitions(lines, &TYPES));
        push(&mut parts, "function", "functions", &definitions(lines, &FUNCTIONS));
    }
    if !parts.is_empty() {
        return Some(format!("It has {}.", parts.join(", and ")));
    }
    let last = lines.iter().rev().find(|line| !line.trim().is_empty())?;
    (lines.len() > 1).then(|| format!("It ends with \"{}\".", quote(last)))
}

fn push(parts: &mut Vec<String>, one: &str, many: &str, found: &[String]) {
    if !found.is_empty() {
        let kind = if found.len() == 1 { one } else { many };
        parts.push(format!("the {kind} {}", names(found, MAX_NAMES)));
    }
}

fn heading(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#');
    heading.starts_with(' ').then(|| heading.trim().to_owned())
}

fn sections(lines: &[&str]) -> Vec<String> {
    let section = |line: &&str| line.trim().strip_prefix('[')?.split(']').next().map(str::to_owned);
    lines.iter().filter_map(section).collect()
}

/// Returns the names after one of the keywords at the beginning of a line.
fn definitions(lines: &[&str], keywords: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for line in lines {
        let mut words = line.split_whitespace().skip_while(|word| MODIFIERS.contains(word));
        let keyword = words.next().filter(|word| keywords.contains(word));
        let Some(word) = keyword.and(words.next()) else {
            continue;
        };
        let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
        let name = word.get(..end).unwrap_or_default().to_owned();
        if !name.is_empty() && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}
