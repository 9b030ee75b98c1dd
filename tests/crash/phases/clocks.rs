//! Nodes whose clocks are an hour ahead or behind: no run may be taken from another node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::process::Command;
use tokio::time::sleep;

use crate::load::{Clients, Load};
use crate::output::say;
use crate::suite::Suite;
use crate::testbed::Setup;

const HOUR: i64 = 3600;
const SESSIONS: usize = 3;
/// The duration of the load, longer than a lease.
const LOAD_FOR: Duration = Duration::from_secs(16);

pub(crate) async fn run(suite: &Suite) {
    if library().is_none() {
        say("clocks: skipped, because libfaketime is not installed");
        return;
    }
    let scenarios = [("a clock ahead", HOUR), ("a clock behind", -HOUR)]
        .map(|(name, seconds)| (name.to_owned(), run_scenario(suite, name, seconds).boxed_local()));
    suite.run_scenarios(2, scenarios.into()).await;
}

async fn run_scenario(suite: &Suite, name: &str, seconds: i64) -> anyhow::Result<()> {
    let setup = Setup { clocks: [None, Some(seconds)], ..Setup::default() };
    let testbed = suite.testbed(name, &suite.fast, setup).await?;
    testbed.start_all().await?;
    let load = Load::start(&testbed, Clients::mixed(SESSIONS), &mut suite.rng(name)).await?;
    // Each takeover in this time is false, because no node fails.
    sleep(LOAD_FOR).await;
    testbed.tally.wrong_clocks.add(1);
    load.finish().await
}

/// Sets the clock of a program ahead by `seconds`.
pub(crate) fn set_clock(command: &mut Command, seconds: i64) {
    if let Some(library) = library() {
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME", format!("{seconds:+}s"))
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

fn library() -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
    let library = |folder: &str| Path::new(folder).join("faketime/libfaketime.so.1");
    folders.into_iter().map(library).find(|library| library.exists())
}
