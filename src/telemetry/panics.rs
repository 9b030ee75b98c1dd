//! Panics as log lines, so that they have the log's format and are redacted too.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{PanicHookInfo, set_hook};

/// Logs panics from now on instead of printing them.
pub(super) fn install_hook() {
    set_hook(Box::new(log));
}

fn log(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("payload is not a string");
    let location = panic.location().map(tracing::field::display);
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    let backtrace = is_captured.then(|| tracing::field::display(&backtrace));
    tracing::error!(location, backtrace, "panicked: {message}");
}
