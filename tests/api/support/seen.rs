//! What the services of all tests say: their logs, errors and figures. `scripts/test` searches it
//! for secrets when the tests are over.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::process::Command;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

/// The key of the model in tests. Whatever begins like this is searched for.
pub(crate) const MODEL_KEY: &str = "planted-model-key";
/// How much is kept: all that our own code says, and what libraries say of connections.
const KEPT: &str = "info,twostep=trace,reqwest=debug,hyper_util=debug";

/// The folder that is searched, if one is.
fn folder() -> Option<PathBuf> {
    env::var_os("TWOSTEP_TEST_SEEN").map(Into::into)
}

fn append(name: &str) -> Option<File> {
    let path = folder()?.join(name);
    Some(OpenOptions::new().create(true).append(true).open(path).unwrap())
}

/// Shows with a test that fails what its service logs, and keeps more of it.
pub(crate) fn log() {
    let kept = append(&format!("{}.log", std::process::id())).map(|file| {
        let layer = fmt::layer().with_ansi(false).with_writer(Arc::new(file));
        layer.with_filter(EnvFilter::new(KEPT))
    });
    let shown = fmt::layer().with_ansi(false).with_test_writer().with_filter(LevelFilter::INFO);
    // A second test of the same process finds it installed.
    let _ = tracing_subscriber::registry().with(shown).with(kept).try_init();
}

/// Keeps an answer.
pub(crate) fn answer(text: &str) {
    if let Some(mut file) = append(&format!("{}.answers", std::process::id())) {
        // One write, so that the answers of two tests never mix.
        file.write_all(format!("{text}\n").as_bytes()).unwrap();
    }
}

/// Keeps what a program logs, unless a test reads it.
pub(crate) fn log_of(command: &mut Command) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    if command.as_std().get_envs().any(|(name, _)| name == "LOG") {
        return;
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = append(&format!("{}.{number}.program.log", std::process::id()));
    if file.is_some() {
        command.env("TWOSTEP_LOG", KEPT);
    }
    command.stderr(file.map_or(Stdio::null(), Stdio::from));
}
