//! Findings of the checks.

use serde::Serialize;
use serde_json::json;

use super::hints::{Fault, Proxy};
use crate::cli::terminal::one_line;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Ok,
    Warn,
    Fail,
}

/// The result of one check.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The subject of the check.
    about: &'static str,
    text: String,
    /// The known fault, which has hints for proxies.
    fault: Option<Fault>,
}

impl Finding {
    pub(super) fn ok(about: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Ok, about, text: text.into(), fault: None }
    }

    pub(super) fn warn(about: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Warn, ..Self::ok(about, text) }
    }

    pub(super) fn fail(about: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::ok(about, text) }
    }

    /// Prepends another problem, which makes the finding at least a warning.
    pub(super) fn with_warning(self, text: String) -> Self {
        let level = if self.level == Level::Ok { Level::Warn } else { self.level };
        Self { level, text: text + &self.text, ..self }
    }

    pub(super) fn is_ok(&self) -> bool {
        self.level == Level::Ok
    }

    /// Adds the fault.
    pub(super) fn because_of(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// Returns the line of the finding, and one line with the configuration change per proxy.
    pub(super) fn lines(&self, proxies: &[Proxy], prefix: &str, json: bool) -> Vec<String> {
        let Self { level, about, text, fault } = self;
        let text = one_line(text);
        let hint = |proxy: &Proxy| Some((proxy.name(), proxy.hint((*fault)?, prefix)?));
        let hints = proxies.iter().filter_map(hint);
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
