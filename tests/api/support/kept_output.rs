//! Keeps the output of the services of the black-box tests, which is searched for secrets.

#[path = "../../support/kept_output.rs"]
mod kept;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::process::Command;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use kept::file;
pub(crate) use kept::keep_response;

/// The API key of the model in tests. The search finds every text with the prefix `planted-`.
pub(crate) const MODEL_KEY: &str = "planted-model-key";
/// The log filter of the kept output: all of our own code, and connections of libraries.
const KEPT: &str = "info,twostep=trace,reqwest=debug,hyper_util=debug";

/// Installs the log of the services: libtest prints it for a failed test, and more of it is kept.
pub(crate) fn log() {
    let kept = file("log").map(|file| {
        let layer = fmt::layer().with_ansi(false).with_writer(Arc::new(file));
        layer.with_filter(EnvFilter::new(KEPT))
    });
    let shown = fmt::layer().with_ansi(false).with_test_writer().with_filter(LevelFilter::INFO);
    // An earlier test of this process may have installed it.
    let _ = tracing_subscriber::registry().with(shown).with(kept).try_init();
}

/// Keeps the log of a program, unless the test reads the log itself.
pub(crate) fn log_of(command: &mut Command) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    if command.as_std().get_envs().any(|(name, _)| name == "LOG") {
        return;
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = file(&format!("{number}.program.log"));
    if file.is_some() {
        command.env("TWOSTEP_LOG", KEPT);
    }
    command.stderr(file.map_or(Stdio::null(), Stdio::from));
}
