//! Logging: to stderr, as text or as one JSON object per line, with secrets redacted.

mod panics;
mod redact;
mod shapes;
mod writer;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogArgs, LogFormat, Secrets};
pub use redact::{Form, Redactor};
use writer::LogQueue;
pub use writer::{LogGuard, lost_lines};

/// Starts the logger of the process, which redacts these secrets. It writes lines until the guard is
/// dropped.
pub fn init(args: &LogArgs, secrets: &Secrets) -> anyhow::Result<LogGuard> {
    let filter = EnvFilter::try_new(&args.log)
        .with_context(|| format!("the log filter {:?} is invalid", args.log))?;
    let form = match args.log_format {
        LogFormat::Text => Form::Text,
        LogFormat::Json => Form::Json,
    };
    let (writer, guard) = LogQueue::to_stderr(Redactor::new(secrets.iter(), form)?)
        .context("the thread that writes the log did not start")?;
    let builder = fmt().with_env_filter(filter).with_writer(writer).with_target(false);
    match form {
        Form::Text => builder.with_ansi(false).finish().try_init(),
        Form::Json => builder.json().flatten_event(true).finish().try_init(),
    }
    .context("the logger has already been started")?;
    panics::install_hook();
    Ok(guard)
}
