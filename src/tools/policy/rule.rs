//! Permission rules, compiled once and evaluated for every call.

use std::collections::BTreeMap;
use std::path::PathBuf;

use reqwest::Url;

use super::command::CommandPattern;
use super::domain::{DomainPattern, is_plain_url};
use super::input::{CallInput, Node};
use super::path::PathPattern;
use super::visible::{has_hidden, is_hidden};
use super::wildcard::{MAX_PATTERN, MAX_TEXT, Wildcard};
use super::{EXIT_PLAN_MODE, PolicyDecision};
use crate::domain::permission::{Permission, Rule};
use crate::domain::tool::ToolCall;

/// The member that contains a shell command, and the members that contain a path.
const COMMAND: &str = "command";
const PATHS: [&str; 3] = ["file_path", "notebook_path", "path"];
/// The member that contains a URL.
const URL: &str = "url";
/// The prefix of a URL pattern that names a domain.
const DOMAIN: &str = "domain:";

/// Maximum length of a reason, in bytes. A longer one is truncated.
pub const MAX_REASON: usize = 2000;

/// A rule that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {index}, for {tool:?}: {} {cause}", .member.as_deref().unwrap_or("the tool"))]
pub struct BadRule {
    /// The zero-based index of the rule in its list.
    pub index: usize,
    /// The tool that the rule names.
    pub tool: String,
    /// The input member with the invalid pattern. `None` if the tool name is invalid.
    pub member: Option<String>,
    /// The cause.
    pub cause: &'static str,
}

/// Checks that all rules can be compiled.
pub fn check(rules: &[Rule]) -> Result<(), BadRule> {
    rules
        .iter()
        .enumerate()
        .try_for_each(|(index, rule)| CompiledRule::new(index, rule, &[]).map(drop))
}

/// Returns a rule that allows exactly this call: its command, path and URL, or the whole tool if
/// the call has none of these. Returns `None` if no pattern can express the call.
pub fn remember(call: &ToolCall) -> Option<Rule> {
    if call.name == EXIT_PLAN_MODE {
        // An approval applies to one plan only.
        return None;
    }
    let input = CallInput::read(&call.input);
    let mut members = BTreeMap::new();
    for member in [COMMAND, URL].into_iter().chain(PATHS) {
        let Some(node) = input.find(member).first().copied() else { continue };
        let texts = node.texts()?;
        let [text] = texts.as_slice() else { return None };
        // A literal `*` in the input would be a wildcard in the rule.
        if text.contains('*') {
            return None;
        }
        members.insert(member.to_owned(), (*text).to_owned());
    }
    let tool = call.name.clone();
    let rule = Rule { tool, input: members, decision: Permission::Allow, reason: None };
    let is_exact = CompiledRule::new(0, &rule, &[]).ok()?.applies_to(&call.name, &input);
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

/// A pattern for a text that is not a command, a path or a domain.
#[derive(Debug, Clone)]
struct TextPattern {
    given: Wildcard,
    /// The pattern in lowercase.
    lowercase: Wildcard,
}

/// A compiled rule.
#[derive(Debug, Clone)]
pub(super) struct CompiledRule {
    tool: Wildcard,
    members: Vec<(String, Pattern)>,
    decision: Permission,
    reason: Option<String>,
    /// The rule as a denial names it.
    name: String,
}

impl CompiledRule {
    pub(super) fn new(index: usize, rule: &Rule, workspace: &[PathBuf]) -> Result<Self, BadRule> {
        let bad = |member, cause| BadRule { index, tool: rule.tool.clone(), member, cause };
        validate_text(&rule.tool).map_err(|cause| bad(None, cause))?;
        let mut members = Vec::new();
        for (member, pattern) in &rule.input {
            let read =
                validate_text(pattern).and_then(|()| Pattern::new(member, pattern, workspace));
            let pattern = read.map_err(|cause| bad(Some(member.clone()), cause))?;
            members.push((member.clone(), pattern));
        }
        let (tool, decision) = (Wildcard::of_word(&rule.tool), rule.decision);
        Ok(Self { tool, members, decision, reason: rule.reason.clone(), name: name(rule) })
    }

    /// Returns `true` if this rule matches the call.
    pub(super) fn applies_to(&self, tool: &str, input: &CallInput) -> bool {
        if !self.tool.matches(tool) {
            return false;
        }
        if self.members.is_empty() {
            return true;
        }
        match self.decision {
            Permission::Allow => {
                !input.is_ambiguous()
                    && self.members.iter().all(|member| certainly_matches(member, input))
            }
            Permission::Ask | Permission::Deny => {
                input.is_unreadable()
                    || self.members.iter().all(|member| possibly_matches(member, input))
            }
        }
    }

    /// Returns the decision of this rule for a call of the tool.
    pub(super) fn policy_decision(&self, tool: &str) -> PolicyDecision {
        let own = || self.reason.clone().map(shortened);
        let reason = match self.decision {
            Permission::Deny => {
                let denied_by = format!("the permission rule for {} denies it", self.name);
                Some(denial(tool, &denied_by, own()))
            }
            Permission::Ask => own(),
            Permission::Allow => None,
        };
        PolicyDecision { permission: self.decision, reason, is_by_mode: false }
    }
}

/// Returns the text that the model reads of a denied call: the tool, the cause and its reason.
pub(super) fn denial(tool: &str, denied_by: &str, reason: Option<String>) -> String {
    let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    format!("This call of {tool} did not run: {denied_by}.{reason}")
}

/// Names a rule by its patterns, such as `"Edit" with file_path "docs/**"`.
fn name(rule: &Rule) -> String {
    let patterns = rule.input.iter().map(|(member, pattern)| format!("{member} {pattern:?}"));
    let patterns: Vec<String> = patterns.collect();
    let with = if patterns.is_empty() { "" } else { " with " };
    shortened(format!("{:?}{with}{}", rule.tool, patterns.join(" and ")))
}

fn certainly_matches((member, pattern): &(String, Pattern), input: &CallInput) -> bool {
    let found = input.find(member);
    let texts: Option<Vec<Vec<&str>>> = found.into_iter().map(Node::texts).collect();
    let texts: Vec<&str> = texts.into_iter().flatten().flatten().collect();
    !texts.is_empty() && texts.into_iter().all(|text| pattern.certainly_matches(text))
}

fn possibly_matches((member, pattern): &(String, Pattern), input: &CallInput) -> bool {
    input.find(member).into_iter().any(|node| {
        node.texts()
            .is_none_or(|texts| texts.into_iter().any(|text| pattern.possibly_matches(text)))
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

    fn certainly_matches(&self, text: &str) -> bool {
        match self {
            Self::Command(pattern) => pattern.certainly_matches(text),
            Self::Path(pattern) => pattern.certainly_matches(text),
            Self::Domain(pattern) => pattern.certainly_matches(text),
            Self::Url(pattern) => is_plain_url(text) && pattern.certainly_matches(text),
            Self::Text(pattern) => pattern.certainly_matches(text),
        }
    }

    fn possibly_matches(&self, text: &str) -> bool {
        match self {
            Self::Command(pattern) => pattern.possibly_matches(text),
            Self::Path(pattern) => pattern.possibly_matches(text),
            Self::Domain(pattern) => pattern.possibly_matches(text),
            Self::Url(pattern) => {
                let read = Url::parse(text).map_or_else(|_| text.to_owned(), String::from);
                pattern.possibly_matches(text) || pattern.possibly_matches(&read)
            }
            Self::Text(pattern) => pattern.possibly_matches(text),
        }
    }
}

impl TextPattern {
    fn new(pattern: &str) -> Self {
        let lowercase = Wildcard::of_text(&pattern.to_lowercase());
        Self { given: Wildcard::of_text(pattern), lowercase }
    }

    fn certainly_matches(&self, text: &str) -> bool {
        text.len() <= MAX_TEXT && !has_hidden(text) && self.given.matches(text)
    }

    /// Returns `true` if the text could match for a reader that ignores case and invisible
    /// characters. `ask` and `deny` rules use this test.
    fn possibly_matches(&self, text: &str) -> bool {
        let shown = || text.chars().filter(|c| !is_hidden(*c)).collect::<String>().to_lowercase();
        text.len() > MAX_TEXT || self.given.matches(text) || self.lowercase.matches(&shown())
    }
}

/// Truncates a reason to [`MAX_REASON`] bytes, because the history stores it with every call that
/// the rule stops.
pub(super) fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    reason
}

pub(super) fn validate_text(pattern: &str) -> Result<(), &'static str> {
    if pattern.is_empty() {
        return Err("is empty");
    }
    if pattern.len() > MAX_PATTERN {
        return Err("is longer than 1000 bytes");
    }
    if has_hidden(pattern) {
        return Err("has an invisible character");
    }
    Ok(())
}
