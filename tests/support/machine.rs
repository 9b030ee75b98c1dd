//! The programs that a machine lacks, and a time limit that holds on every machine.

use std::env;
use std::time::Duration;

/// The time limit of a wait for a condition. It is no measurement: only a test that hangs exceeds it.
pub(crate) const HUNG: Duration = Duration::from_mins(1);

/// Returns whether the tests of a group are left out, because the machine lacks a program that they
/// need. `scripts/test` finds that out, prints it, and sets `TWOSTEP_TEST_WITHOUT`.
pub(crate) fn is_left_out(group: &str) -> bool {
    let groups = env::var_os("TWOSTEP_TEST_WITHOUT").unwrap_or_default();
    groups.to_str().is_some_and(|groups| groups.split_whitespace().any(|it| it == group))
}
