//! The variables of the environment.

use std::env;

/// Returns an environment variable, unless it is unset or empty.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
