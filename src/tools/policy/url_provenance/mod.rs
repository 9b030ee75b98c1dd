//! URL provenance: decides whether a URL originates from the user or from the result of a call,
//! rather than from a model. It follows the text: a URL in a text that a model wrote, or composed
//! from parts in a file or a program, is the model's.
//!
//! A model can also tell something by its choice among known URLs. After it has read private data,
//! the number of pages that it fetches for one message, and that the user did not name, is limited.

mod addresses;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::message::{Block, View};
use crate::domain::provenance::{ResultOrigin, TaskProvenance};
use crate::domain::tool::{ToolCall, ToolClass, ToolUse};

pub(in crate::tools) use addresses::{addresses, replace_unknown_addresses};
use addresses::{bare_addresses, normalized_url};

/// The messages of a session and what is known about their first one.
#[derive(Debug, Clone, Copy)]
pub struct HistorySource<'a> {
    /// The messages of a request, as JSON objects separated by commas.
    pub messages: &'a str,
    /// `true` if a summary replaces earlier messages.
    pub is_compacted: bool,
    /// `true` if a model wrote the first message: the task of a sub-agent.
    pub is_sub_agent: bool,
    /// `true` if the session is a fork: its folder has files that the model of another session may
    /// have written, in messages that the fork does not have.
    pub is_fork: bool,
    /// The provenance of that task.
    pub task: Option<&'a TaskProvenance>,
    /// Calls that are not counted as earlier calls.
    pub current: &'a [ToolCall],
}

/// The facts about a call that determine the provenance of its result.
#[derive(Debug, Clone)]
pub struct CallFacts {
    /// The origin of its result.
    pub origin: ResultOrigin,
    /// The class of its tool.
    pub class: ToolClass,
    /// The URL that it requests.
    pub requested_url: Option<String>,
}

/// The verdict on the request of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlVerdict {
    /// The user or the result of a call named the URL.
    Known,
    /// Only a model named the URL.
    ModelOnly,
    /// The model has read private data, and has then fetched the maximum number of pages that the
    /// user did not name.
    TooManyLinks {
        /// The maximum.
        max: usize,
    },
}

/// The URLs of a session with their provenance, and the state that limits the use of links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UrlHistory {
    /// URLs that the user named.
    user: HashSet<Url>,
    /// URLs that results of calls named before the model did.
    found: HashSet<Url>,
    has_read: bool,
    has_written: bool,
    /// The number of fetches since the last message of the user whose URL the user did not name.
    links: usize,
}

impl UrlHistory {
    /// Reads the messages. Messages that cannot be parsed name no URL.
    pub fn read(source: &HistorySource<'_>, facts: &dyn Fn(&str, &RawValue) -> CallFacts) -> Self {
        let array = format!("[{}]", source.messages);
        let messages: Vec<Message<'_>> = serde_json::from_str(&array).unwrap_or_default();
        let mut scan = Scan::new(source, facts);
        for message in &messages {
            scan.message(message);
        }
        scan.finish()
    }

    /// Decides on the request of a URL. `earlier` are the URLs that earlier calls of the same reply
    /// request, and `max` is the maximum number of links.
    pub fn verdict<'a>(
        &self,
        address: &str,
        earlier: impl IntoIterator<Item = &'a str>,
        max: usize,
    ) -> UrlVerdict {
        let Some(url) = normalized_url(address) else { return UrlVerdict::ModelOnly };
        if self.user.contains(&url) {
            return UrlVerdict::Known;
        }
        if !self.found.contains(&url) {
            return UrlVerdict::ModelOnly;
        }
        let is_link =
            |address: &&str| normalized_url(address).is_none_or(|url| !self.user.contains(&url));
        let earlier = earlier.into_iter().filter(is_link).count();
        if self.has_read && self.links.saturating_add(earlier) >= max {
            UrlVerdict::TooManyLinks { max }
        } else {
            UrlVerdict::Known
        }
    }

    /// Returns the provenance of the task of one of `parts` sub-agents that start together.
    pub fn task(&self, prompt: &str, max_links: usize, parts: usize) -> TaskProvenance {
        let named: HashSet<Url> = addresses(prompt).chain(bare_addresses(prompt)).collect();
        let known = |urls: &HashSet<Url>| -> Vec<String> {
            let known: BTreeSet<&Url> = named.intersection(urls).collect();
            known.into_iter().map(Url::to_string).collect()
        };
        TaskProvenance {
            user_urls: known(&self.user),
            found_urls: known(&self.found),
            has_read: self.has_read,
            // Sub-agents that work at the same time write to the same workspace.
            has_written: self.has_written || parts > 1,
            links: max_links.saturating_sub(self.links) / parts.max(1),
        }
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// A pass over the messages.
struct Scan<'a> {
    source: &'a HistorySource<'a>,
    facts: &'a dyn Fn(&str, &RawValue) -> CallFacts,
    history: UrlHistory,
    /// URLs that a model has named so far.
    own: HashSet<Url>,
    /// The origins of the results of calls, by the ids of the calls.
    origins: HashMap<String, ResultOrigin>,
    /// The URLs that calls have requested since the last message of the user.
    requested: Vec<Option<Url>>,
    /// A sub-agent has worked since the last message of the user.
    has_delegated: bool,
    /// The message is the task of a sub-agent.
    is_task: bool,
}

impl<'a> Scan<'a> {
    fn new(source: &'a HistorySource<'a>, facts: &'a dyn Fn(&str, &RawValue) -> CallFacts) -> Self {
        let urls = |urls: Option<&Vec<String>>| {
            urls.into_iter().flatten().filter_map(|url| normalized_url(url)).collect()
        };
        let task = source.task;
        let history = UrlHistory {
            user: urls(task.map(|task| &task.user_urls)),
            found: urls(task.map(|task| &task.found_urls)),
            // The summarized messages are not known.
            has_read: source.is_compacted || task.is_some_and(|task| task.has_read),
            has_written: source.is_compacted
                || source.is_fork
                || task.is_some_and(|task| task.has_written),
            links: 0,
        };
        Self {
            source,
            facts,
            history,
            own: HashSet::new(),
            origins: HashMap::new(),
            requested: Vec::new(),
            has_delegated: false,
            is_task: source.is_sub_agent && !source.is_compacted,
        }
    }

    fn message(&mut self, message: &Message<'_>) {
        let is_user = message.role == "user";
        self.is_task &= is_user;
        for raw in &message.content {
            let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
            match Block::view(raw).map(|block| block.view) {
                Ok(View::ToolResult { tool_use_id, is_error }) => {
                    let origin = self.origins.get(tool_use_id.as_ref()).copied();
                    self.result(origin.unwrap_or(ResultOrigin::Directed), is_error, &value);
                }
                Ok(View::ToolUse(call)) if !is_user => self.call(&call, &value),
                Ok(view) if is_user => self.user_block(&view, &value),
                Ok(_) if is_server_result(&value) => {
                    self.result(server_origin(&value), false, &value);
                }
                Ok(_) | Err(_) => self.own.extend(urls_in(&value)),
            }
        }
    }

    fn user_block(&mut self, view: &View<'_>, value: &Value) {
        if self.is_task {
            self.own.extend(urls_in(value));
            return;
        }
        // Everything but text is a file or a result that the user attached.
        self.history.has_read |= !matches!(view, View::Text(_));
        self.requested.clear();
        self.has_delegated = false;
        let mut texts = Vec::new();
        texts_in(value, &mut texts);
        for text in texts {
            // People often omit the scheme.
            self.history.user.extend(addresses(text).chain(bare_addresses(text)));
        }
    }

    fn call(&mut self, call: &ToolUse<'_>, value: &Value) {
        self.own.extend(urls_in(value));
        let CallFacts { origin, class, requested_url } = (self.facts)(&call.name, call.input);
        self.origins.insert(call.id.clone().into_owned(), origin);
        if self.source.current.iter().any(|current| current.tool_use_id == call.id) {
            return;
        }
        self.history.has_written |= class != ToolClass::Pure;
        self.has_delegated |= class == ToolClass::SubAgent;
        if let Some(address) = requested_url {
            self.requested.push(normalized_url(&address));
        }
    }

    fn result(&mut self, origin: ResultOrigin, is_error: bool, value: &Value) {
        self.history.has_read |= origin.is_private();
        // An error text repeats the input.
        if !is_error && origin.names_urls(self.history.has_written) {
            let own = &self.own;
            self.history.found.extend(urls_in(value).into_iter().filter(|url| !own.contains(url)));
        }
    }

    fn finish(self) -> UrlHistory {
        let Self { mut history, requested, has_delegated, .. } = self;
        let is_link =
            |url: &&Option<Url>| url.as_ref().is_none_or(|url| !history.user.contains(url));
        let links = requested.iter().filter(is_link).count();
        // The number of pages that the sub-agents have fetched is not in these messages.
        history.links = if has_delegated { usize::MAX } else { links };
        history
    }
}

fn is_server_result(block: &Value) -> bool {
    kind(block).ends_with("tool_result")
}

/// Returns the origin of the result of a tool that the model provider runs.
fn server_origin(block: &Value) -> ResultOrigin {
    match kind(block) {
        "web_search_tool_result" | "web_fetch_tool_result" => ResultOrigin::PublicWeb,
        _ => ResultOrigin::Directed,
    }
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the URLs in all texts of a block.
fn urls_in(block: &Value) -> HashSet<Url> {
    let mut texts = Vec::new();
    texts_in(block, &mut texts);
    texts.into_iter().flat_map(addresses).collect()
}

fn texts_in<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts_in(item, texts)),
        Value::Object(members) => {
            for (name, member) in members {
                texts.push(name);
                texts_in(member, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
