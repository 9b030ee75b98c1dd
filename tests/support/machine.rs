//! What tests need to know about the machine: missing programs, and its load.

use std::num::NonZero;
use std::time::Duration;
use std::{env, fs, thread};

/// Returns whether the tests of a group are left out, because the machine lacks a program that they
/// need. `scripts/test` finds that out, prints it, and sets `TWOSTEP_TEST_WITHOUT`.
pub(crate) fn is_left_out(group: &str) -> bool {
    let groups = env::var_os("TWOSTEP_TEST_WITHOUT").unwrap_or_default();
    groups.to_str().is_some_and(|groups| groups.split_whitespace().any(|it| it == group))
}

/// A time limit on a busy machine. It is `limit` while each runnable process has a processor, and grows
/// with the number of processes that compete for one.
pub(crate) fn scaled(limit: Duration) -> Duration {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut fields = load.split([' ', '/']);
    let mut next = |nth| fields.nth(nth).and_then(|field| field.parse::<f64>().ok()).unwrap_or(4.0);
    // The average of the last minute, and the number of runnable processes now.
    let competing = f64::max(next(0), next(2));
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let processors = f64::from(u16::try_from(processors).unwrap_or(1));
    limit.mul_f64((competing / processors).max(1.0))
}
