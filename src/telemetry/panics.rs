//! Panics as lines of the log, so that they have its form and lose their secrets as all else does.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{PanicHookInfo, set_hook};

/// From now on panics are logged, and not printed.
pub(super) fn log_them() {
    set_hook(Box::new(log));
}

fn log(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("something that is no text");
    let location = panic.location().map(tracing::field::display);
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    let backtrace = is_captured.then(|| tracing::field::display(&backtrace));
    tracing::error!(location, backtrace, "panicked: {message}");
}
