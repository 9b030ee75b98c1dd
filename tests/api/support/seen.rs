//! What the services of these tests say is kept, to be searched.

#[path = "../../support/seen.rs"]
mod kept;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::process::Command;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

pub(crate) use kept::answer;
use kept::file;

/// The key of the model in tests. Whatever begins like this is searched for.
pub(crate) const MODEL_KEY: &str = "planted-model-key";
/// How much is kept: all that our own code says, and what libraries say of connections.
const KEPT: &str = "info,twostep=trace,reqwest=debug,hyper_util=debug";

/// Shows with a test that fails what its service logs, and keeps more of it.
pub(crate) fn log() {
    let kept = file("log").map(|file| {
        let layer = fmt::layer().with_ansi(false).with_writer(Arc::new(file));
        layer.with_filter(EnvFilter::new(KEPT))
    });
    let shown = fmt::layer().with_ansi(false).with_test_writer().with_filter(LevelFilter::INFO);
    // A second test of the same process finds it installed.
    let _ = tracing_subscriber::registry().with(shown).with(kept).try_init();
}

/// Keeps what a program logs, unless a test reads it.
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
