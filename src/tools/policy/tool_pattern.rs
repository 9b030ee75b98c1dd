//! Patterns for names of tools, as permission rules have them.

use super::rule::validate_text;
use super::wildcard::Wildcard;

/// A pattern for names of tools, in which every `*` matches any characters.
#[derive(Debug, Clone)]
pub struct ToolPattern(Wildcard);

impl ToolPattern {
    /// Compiles a pattern, or returns the reason why it is not valid.
    pub fn new(pattern: &str) -> Result<Self, &'static str> {
        validate_text(pattern)?;
        Ok(Self(Wildcard::of_word(pattern)))
    }

    /// Returns `true` if the pattern matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}
