//! Rules, read once and asked of every call.

use std::collections::BTreeMap;
use std::path::PathBuf;

use reqwest::Url;

use super::command::CommandPattern;
use super::domain::{DomainPattern, is_plain_url};
use super::input::{Input, Node};
use super::path::PathPattern;
use super::visible::{has_hidden, is_hidden};
use super::wildcard::{MAX_PATTERN, MAX_TEXT, Wildcard};
use super::{EXIT_PLAN_MODE, Verdict};
use crate::domain::permission::{Permission, Rule};
use crate::domain::tool::ToolCall;

/// Members that hold a shell command, and those that hold a path.
const COMMAND: &str = "command";
const PATHS: [&str; 3] = ["file_path", "notebook_path", "path"];
/// The member that holds the address of a page.
const URL: &str = "url";
/// What a pattern of an address begins with that is a domain.
const DOMAIN: &str = "domain:";

/// The longest reason that is told, in bytes.
pub const MAX_REASON: usize = 2000;

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {index}, for {tool:?}: {} {cause}", .member.as_deref().unwrap_or("the tool"))]
pub struct BadRule {
    /// Its place in its list, from 0.
    pub index: usize,
    /// Of which tool it speaks.
    pub tool: String,
    /// The member of the input whose pattern is wrong; none if the tool's name is.
    pub member: Option<String>,
    /// What is wrong with it.
    pub cause: &'static str,
}

/// Whether rules can be read.
pub fn check(rules: &[Rule]) -> Result<(), BadRule> {
    rules.iter().enumerate().try_for_each(|(index, rule)| Compiled::new(index, rule, &[]).map(drop))
}

/// The rule that allows what a call does, and nothing else: its command, its path, its address, or,
/// where it has none of these, the tool. None if no pattern can say it.
pub fn remember(call: &ToolCall) -> Option<Rule> {
    if call.name == EXIT_PLAN_MODE {
        // Every plan is another one.
        return None;
    }
    let input = Input::read(&call.input);
    let mut members = BTreeMap::new();
    for member in [COMMAND, URL].into_iter().chain(PATHS) {
        let Some(node) = input.find(member).first().copied() else { continue };
        let texts = node.texts()?;
        let [text] = texts.as_slice() else { return None };
        // A star in the model's input is a star; in a rule it would be anything.
        if text.contains('*') {
            return None;
        }
        members.insert(member.to_owned(), (*text).to_owned());
    }
    let tool = call.name.clone();
    let rule = Rule { tool, input: members, decision: Permission::Allow, reason: None };
    let is_exact = Compiled::new(0, &rule, &[]).ok()?.speaks_of(&call.name, &input);
    is_exact.then_some(rule)
}

#[derive(Debug, Clone)]
enum Pattern {
    Command(CommandPattern),
    Path(PathPattern),
    Domain(DomainPattern),
    Url(TextPattern),
    Text(TextPattern),
}

/// A pattern of a text.
#[derive(Debug, Clone)]
struct TextPattern {
    given: Wildcard,
    /// The same in small letters.
    small: Wildcard,
}

/// A rule, read.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    tool: Wildcard,
    members: Vec<(String, Pattern)>,
    decision: Permission,
    reason: Option<String>,
}

impl Compiled {
    pub(super) fn new(index: usize, rule: &Rule, workspace: &[PathBuf]) -> Result<Self, BadRule> {
        let bad = |member, cause| BadRule { index, tool: rule.tool.clone(), member, cause };
        refuse_odd(&rule.tool).map_err(|cause| bad(None, cause))?;
        let mut members = Vec::new();
        for (member, pattern) in &rule.input {
            let read = refuse_odd(pattern).and_then(|()| Pattern::new(member, pattern, workspace));
            let pattern = read.map_err(|cause| bad(Some(member.clone()), cause))?;
            members.push((member.clone(), pattern));
        }
        let (tool, decision) = (Wildcard::of_word(&rule.tool), rule.decision);
        Ok(Self { tool, members, decision, reason: rule.reason.clone() })
    }

    /// Whether this rule decides on a call.
    pub(super) fn speaks_of(&self, tool: &str, input: &Input) -> bool {
        if !self.tool.matches(tool) {
            return false;
        }
        if self.members.is_empty() {
            return true;
        }
        match self.decision {
            Permission::Allow => {
                !input.is_ambiguous() && self.members.iter().all(|member| surely(member, input))
            }
            Permission::Ask | Permission::Deny => {
                input.is_unreadable() || self.members.iter().all(|member| maybe(member, input))
            }
        }
    }

    /// What it says.
    pub(super) fn verdict(&self, tool: &str) -> Verdict {
        let forbids = || format!("A rule does not allow this call of {tool}.");
        let own = || self.reason.clone().map(shortened);
        let reason = match self.decision {
            Permission::Deny => Some(own().unwrap_or_else(forbids)),
            Permission::Ask => own(),
            Permission::Allow => None,
        };
        Verdict { permission: self.decision, reason, is_by_mode: false }
    }
}

fn surely((member, pattern): &(String, Pattern), input: &Input) -> bool {
    let found = input.find(member);
    let texts: Option<Vec<Vec<&str>>> = found.into_iter().map(Node::texts).collect();
    let texts: Vec<&str> = texts.into_iter().flatten().flatten().collect();
    !texts.is_empty() && texts.into_iter().all(|text| pattern.surely(text))
}

fn maybe((member, pattern): &(String, Pattern), input: &Input) -> bool {
    input.find(member).into_iter().any(|node| {
        node.texts().is_none_or(|texts| texts.into_iter().any(|text| pattern.maybe(text)))
    })
}

impl Pattern {
    fn new(member: &str, pattern: &str, workspace: &[PathBuf]) -> Result<Self, &'static str> {
        let name = member.rsplit('.').next().unwrap_or(member);
        if name == COMMAND {
            return CommandPattern::new(pattern).map(Self::Command);
        }
        if PATHS.contains(&name) {
            return PathPattern::new(pattern, workspace).map(Self::Path);
        }
        if let Some(domain) = pattern.strip_prefix(DOMAIN).filter(|_| name == URL) {
            return DomainPattern::new(domain).map(Self::Domain);
        }
        let text = TextPattern::new(pattern);
        Ok(if name == URL { Self::Url(text) } else { Self::Text(text) })
    }

    fn surely(&self, text: &str) -> bool {
        match self {
            Self::Command(pattern) => pattern.surely(text),
            Self::Path(pattern) => pattern.surely(text),
            Self::Domain(pattern) => pattern.surely(text),
            Self::Url(pattern) => is_plain_url(text) && pattern.surely(text),
            Self::Text(pattern) => pattern.surely(text),
        }
    }

    fn maybe(&self, text: &str) -> bool {
        match self {
            Self::Command(pattern) => pattern.maybe(text),
            Self::Path(pattern) => pattern.maybe(text),
            Self::Domain(pattern) => pattern.maybe(text),
            Self::Url(pattern) => {
                let read = Url::parse(text).map_or_else(|_| text.to_owned(), String::from);
                pattern.maybe(text) || pattern.maybe(&read)
            }
            Self::Text(pattern) => pattern.maybe(text),
        }
    }
}

impl TextPattern {
    fn new(pattern: &str) -> Self {
        let small = Wildcard::of_text(&pattern.to_lowercase());
        Self { given: Wildcard::of_text(pattern), small }
    }

    fn surely(&self, text: &str) -> bool {
        text.len() <= MAX_TEXT && !has_hidden(text) && self.given.matches(text)
    }

    /// Whoever reads the text may not care for its case, nor for what does not show.
    fn maybe(&self, text: &str) -> bool {
        let shown = || text.chars().filter(|c| !is_hidden(*c)).collect::<String>().to_lowercase();
        text.len() > MAX_TEXT || self.given.matches(text) || self.small.matches(&shown())
    }
}

/// A reason that is told with every call that a rule stops, and stays in the history.
pub(super) fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    reason
}

fn refuse_odd(pattern: &str) -> Result<(), &'static str> {
    if pattern.is_empty() {
        return Err("is empty");
    }
    if pattern.len() > MAX_PATTERN {
        return Err("is longer than 1000 bytes");
    }
    if has_hidden(pattern) {
        return Err("has a character that does not show");
    }
    Ok(())
}
