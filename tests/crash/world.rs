//! What all phases share.

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

use crate::arena::{Arena, Setup};
use crate::args::Args;
use crate::cluster::{Cluster, Database};
use crate::planted::Collector;
use crate::tally::Tally;

/// Servers, folders and figures.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) args: Args,
    pub(crate) seed: u64,
    folder: TempDir,
    /// Loses nothing when it crashes.
    pub(crate) durable: Cluster,
    /// Never crashes.
    pub(crate) fast: Cluster,
    pub(crate) tally: Arc<Tally>,
    collector: Collector,
    arenas: AtomicU32,
}

impl World {
    pub(crate) async fn new(args: Args, seed: u64) -> anyhow::Result<Self> {
        // Not TMPDIR: root hands the servers to another user, who must get there.
        let folder = tempfile::Builder::new()
            .prefix("twostep-crash-")
            .permissions(Permissions::from_mode(0o755))
            .disable_cleanup(args.keep)
            .tempdir_in("/tmp")?;
        // A copy, because another build may take the place of this one in the meantime.
        fs::copy(env!("CARGO_BIN_EXE_twostep"), folder.path().join("twostep"))?;
        let [safe, quick] = ["durable", "fast"].map(|name| folder.path().join(name));
        let durable = Cluster::start(&args, &safe, Durability::Durable);
        let fast = Cluster::start(&args, &quick, Durability::Throwaway);
        let (durable, fast) = tokio::try_join!(durable, fast)?;
        let tally = Arc::default();
        let collector = Collector::start().await?;
        let arenas = AtomicU32::new(0);
        Ok(Self { args, seed, folder, durable, fast, tally, collector, arenas })
    }

    /// Where the logs are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A new arena for a story.
    pub(crate) async fn arena(
        &self,
        name: &str,
        cluster: &Cluster,
        setup: Setup,
    ) -> anyhow::Result<Arc<Arena>> {
        let setup = self.completed(setup);
        Arena::new(name, self.next_folder(), cluster, setup, &self.tally).await
    }

    /// Whether there was no arena at all.
    pub(crate) fn is_untouched(&self) -> bool {
        self.arenas.load(Ordering::Relaxed) == 0
    }

    /// A new arena on a database that is there, with a tally of its own.
    pub(crate) async fn arena_on(
        &self,
        name: &str,
        database: Database,
        setup: Setup,
        tally: &Arc<Tally>,
    ) -> anyhow::Result<Arc<Arena>> {
        let setup = self.completed(setup);
        Arena::on(name, self.next_folder(), database, setup, tally).await
    }

    fn completed(&self, setup: Setup) -> Setup {
        let program = self.folder.path().join("twostep");
        Setup { program, collector: self.collector.url.clone(), ..setup }
    }

    fn next_folder(&self) -> PathBuf {
        let number = self.arenas.fetch_add(1, Ordering::Relaxed);
        self.folder.path().join(format!("arena-{number}"))
    }

    /// What is random in one story.
    pub(crate) fn rng(&self, name: &str) -> Rng {
        let mixed = name.bytes().fold(self.seed, |mixed, byte| {
            mixed.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(byte))
        });
        Rng::with_seed(mixed)
    }

    /// Plays stories side by side; one that cannot be played is a finding.
    pub(crate) async fn play(
        &self,
        at_a_time: usize,
        stories: Vec<(String, LocalBoxFuture<'_, anyhow::Result<()>>)>,
    ) {
        let played = stream::iter(stories).map(async |(name, story)| {
            if let Err(error) = story.await {
                self.tally.red(&name, &format!("{error:#}"));
            }
        });
        played.buffer_unordered(at_a_time.max(1)).collect::<Vec<()>>().await;
    }
}
