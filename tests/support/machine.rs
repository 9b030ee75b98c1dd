//! The tests that are left out on this machine.

use std::env;

/// Returns whether the tests of a group are left out, because the machine lacks a program that they
/// need. `scripts/test` finds that out, prints it, and sets `TWOSTEP_TEST_WITHOUT`.
pub(crate) fn is_left_out(group: &str) -> bool {
    let groups = env::var_os("TWOSTEP_TEST_WITHOUT").unwrap_or_default();
    groups.to_str().is_some_and(|groups| groups.split_whitespace().any(|it| it == group))
}
