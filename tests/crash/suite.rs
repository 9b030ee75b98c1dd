//! The state that all phases share.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fastrand::Rng;
use futures::future::LocalBoxFuture;
use futures::{StreamExt as _, stream};
use private_postgres::Durability;
use tempfile::TempDir;

use crate::args::Args;
use crate::cluster::{Cluster, Database};
use crate::planted::Collector;
use crate::tally::Tally;
use crate::testbed::{Setup, Testbed};

/// The servers, the folder and the counters of the test.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) args: Args,
    pub(crate) seed: u64,
    folder: TempDir,
    /// A server that may crash: commits are durable.
    pub(crate) durable: Cluster,
    /// A server that never crashes: commits are not durable.
    pub(crate) fast: Cluster,
    pub(crate) tally: Arc<Tally>,
    collector: Collector,
    testbeds: AtomicU32,
}

impl Suite {
    pub(crate) async fn new(args: Args, seed: u64) -> anyhow::Result<Self> {
        // Not TMPDIR: as root, the servers run as another user, who must be able to enter it.
        let folder = tempfile::Builder::new()
            .prefix("twostep-crash-")
            .permissions(Permissions::from_mode(0o755))
            .disable_cleanup(args.keep)
            .tempdir_in("/tmp")?;
        // A copy, because another build may replace the program during the test.
        fs::copy(env!("CARGO_BIN_EXE_twostep"), folder.path().join("twostep"))?;
        let [durable_folder, fast_folder] =
            ["durable", "fast"].map(|name| folder.path().join(name));
        let durable = Cluster::start(&args, &durable_folder, Durability::Durable);
        let fast = Cluster::start(&args, &fast_folder, Durability::Throwaway);
        let (durable, fast) = tokio::try_join!(durable, fast)?;
        let tally = Arc::default();
        let collector = Collector::start().await?;
        let testbeds = AtomicU32::new(0);
        Ok(Self { args, seed, folder, durable, fast, tally, collector, testbeds })
    }

    /// The folder with the logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Creates a testbed for a scenario.
    pub(crate) async fn testbed(
        &self,
        name: &str,
        cluster: &Cluster,
        setup: Setup,
    ) -> anyhow::Result<Arc<Testbed>> {
        let setup = self.completed(setup);
        Testbed::new(name, self.next_folder(), cluster, setup, &self.tally).await
    }

    /// Returns whether no testbed was created.
    pub(crate) fn has_run_nothing(&self) -> bool {
        self.testbeds.load(Ordering::Relaxed) == 0
    }

    /// Creates a testbed on an existing database, with its own tally.
    pub(crate) async fn testbed_on(
        &self,
        name: &str,
        database: Database,
        setup: Setup,
        tally: &Arc<Tally>,
    ) -> anyhow::Result<Arc<Testbed>> {
        let setup = self.completed(setup);
        Testbed::on(name, self.next_folder(), database, setup, tally).await
    }

    fn completed(&self, setup: Setup) -> Setup {
        let program = self.folder.path().join("twostep");
        Setup { program, collector: self.collector.url.clone(), ..setup }
    }

    fn next_folder(&self) -> PathBuf {
        let number = self.testbeds.fetch_add(1, Ordering::Relaxed);
        self.folder.path().join(format!("testbed-{number}"))
    }

    /// The random numbers of one scenario. They depend on the seed and on its name.
    pub(crate) fn rng(&self, name: &str) -> Rng {
        let mixed = name.bytes().fold(self.seed, |mixed, byte| {
            mixed.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(byte))
        });
        Rng::with_seed(mixed)
    }

    /// Runs scenarios, at most `at_a_time` at once. An error of a scenario is a violation.
    pub(crate) async fn run_scenarios(
        &self,
        at_a_time: usize,
        scenarios: Vec<(String, LocalBoxFuture<'_, anyhow::Result<()>>)>,
    ) {
        let runs = stream::iter(scenarios).map(async |(name, scenario)| {
            if let Err(error) = scenario.await {
                self.tally.violation(&name, &format!("{error:#}"));
            }
        });
        runs.buffer_unordered(at_a_time.max(1)).collect::<Vec<()>>().await;
    }
}
