//! Logs: to stderr, for people or one JSON object a line.

use std::io;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogArgs, LogFormat};

/// Starts logging for the process.
pub fn init(args: &LogArgs) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&args.log)
        .with_context(|| format!("the log filter {:?} is not one", args.log))?;
    let builder = fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    match args.log_format {
        LogFormat::Text => builder.with_ansi(false).finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    }
    .context("logging was started before")
}
