//! What was found, and how it is said.

use serde::Serialize;
use serde_json::json;

use super::hints::{Proxy, Trouble};
use crate::cli::terminal::one_line;

/// How good it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Ok,
    Warn,
    Fail,
}

/// What one look has found.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// What was looked at.
    about: &'static str,
    text: String,
    /// What is to be changed, if that is known.
    trouble: Option<Trouble>,
}

impl Finding {
    pub(super) fn ok(about: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Ok, about, text: text.into(), trouble: None }
    }

    pub(super) fn warn(about: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Warn, ..Self::ok(about, text) }
    }

    pub(super) fn fail(about: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::ok(about, text) }
    }

    /// The same, and something before it that is not good either.
    pub(super) fn worse(self, text: String) -> Self {
        let level = if self.level == Level::Ok { Level::Warn } else { self.level };
        Self { level, text: text + &self.text, ..self }
    }

    /// The same, with what is to be changed.
    pub(super) fn because_of(self, trouble: Trouble) -> Self {
        Self { trouble: Some(trouble), ..self }
    }

    /// A line, and one for what is to be changed in each of these proxies.
    pub(super) fn lines(&self, proxies: &[Proxy], json: bool) -> Vec<String> {
        let Self { level, about, text, trouble } = self;
        let text = one_line(text);
        let hints =
            proxies.iter().filter_map(|proxy| Some((proxy.name(), proxy.hint((*trouble)?)?)));
        if json {
            let change: serde_json::Map<_, _> =
                hints.map(|(name, hint)| (name.to_owned(), json!(hint))).collect();
            let line = json!({ "level": level, "about": about, "text": text, "change": change });
            return vec![line.to_string()];
        }
        let word = match level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        };
        let mut lines = vec![format!("{word:<4}  {about:<12}  {text}")];
        lines.extend(hints.map(|(name, hint)| format!("{:20}{name}: {hint}", "")));
        lines
    }
}
