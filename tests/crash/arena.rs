//! Two nodes on one database, with a model, a workspace and a book of what was done to them.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use rustix::process::Signal;
use simulator::{Options, Running, Simulator};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::sync::Mutex as AsyncMutex;

use crate::cluster::{Cluster, Database, NODES};
use crate::node::{Launch, Node, Role};
use crate::plans;
use crate::tally::Tally;

/// What was done to a node, or to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Its process is dead.
    Died,
    /// It says that it is ready.
    Ready,
    /// It stands still, or its leases were taken away: others may take over.
    Stopped,
    /// Its connections broke.
    Disconnected,
}

/// An entry of the book.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) at: SystemTime,
    /// None means all nodes.
    pub(crate) node: Option<usize>,
    pub(crate) deed: Deed,
}

/// A place for a node, which comes and goes.
#[derive(Debug)]
pub(crate) struct Seat {
    launch: Mutex<Launch>,
    pub(crate) node: AsyncMutex<Option<Node>>,
    address: Mutex<Option<String>>,
}

/// What an arena is made of.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    /// Faults that each node has in store at its first start.
    pub(crate) faults: [Vec<String>; 2],
    /// The clocks of the nodes.
    pub(crate) clocks: [Option<i64>; 2],
    /// Whether the first node only accepts, and the second only works.
    pub(crate) is_split: bool,
    /// The program; the world knows it.
    pub(crate) program: PathBuf,
    /// Where spans go; the world knows it.
    pub(crate) collector: String,
    /// Ports of proxies to the database.
    pub(crate) proxies: [Option<u16>; 2],
}

/// Everything that one story takes place in.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) name: String,
    pub(crate) database: Database,
    pub(crate) pool: PgPool,
    pub(crate) simulator: Running,
    pub(crate) folder: PathBuf,
    pub(crate) seats: [Seat; 2],
    pub(crate) http: reqwest::Client,
    pub(crate) tally: Arc<Tally>,
    book: Mutex<Vec<Entry>>,
    /// Keys of posts that were answered, with the runs that were named.
    pub(crate) accepted: Mutex<Vec<(String, String)>>,
    pub(crate) sessions: Mutex<Vec<String>>,
}

impl Arena {
    /// Makes an arena; its nodes are not started.
    pub(crate) async fn new(
        name: &str,
        folder: PathBuf,
        cluster: &Cluster,
        setup: Setup,
        tally: &Arc<Tally>,
    ) -> anyhow::Result<Arc<Self>> {
        Self::on(name, folder, cluster.database(false).await?, setup, tally).await
    }

    pub(crate) async fn on(
        name: &str,
        folder: PathBuf,
        database: Database,
        setup: Setup,
        tally: &Arc<Tally>,
    ) -> anyhow::Result<Arc<Self>> {
        for part in ["work/out", "marks"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let simulator = Simulator::start(listener, plans::script()?, Options::recording());
        let Setup { faults, clocks, proxies, is_split, program, collector } = setup;
        let roles = if is_split { [Role::Accept, Role::Work] } else { [Role::All; 2] };
        let launch = |seat: usize, faults: Vec<String>| {
            let node = NODES.get(seat).copied().unwrap_or_default();
            let proxy = proxies.get(seat).copied().flatten();
            Launch {
                program: program.clone(),
                role: roles[seat],
                database_url: match proxy {
                    Some(port) => database.url_through(node, port),
                    None => database.url(node),
                },
                model_url: simulator.base_url(),
                collector: collector.clone(),
                data_dir: folder.join(node),
                workspace: folder.join("work"),
                witness: folder.join("witness"),
                faults_dir: folder.join("marks"),
                log: folder.join(format!("{node}.log")),
                clock: clocks.get(seat).copied().flatten(),
                faults,
            }
        };
        let [first, second] = faults;
        let seats = [Seat::new(launch(0, first)), Seat::new(launch(1, second))];
        Ok(Arc::new(Self {
            name: name.to_owned(),
            pool: database.pool(),
            http: client(&database)?,
            tally: Arc::clone(tally),
            database,
            simulator,
            folder,
            seats,
            book: Mutex::default(),
            accepted: Mutex::default(),
            sessions: Mutex::default(),
        }))
    }

    /// Starts both nodes.
    pub(crate) async fn start_all(&self) -> anyhow::Result<()> {
        let (first, second) = tokio::join!(self.start(0), self.start(1));
        first.and(second)
    }

    /// Starts a node and waits until it is ready. The next time it starts without faults.
    pub(crate) async fn start(&self, seat: usize) -> anyhow::Result<()> {
        let mut node = self.spawn(seat)?;
        let log = || format!("{}: see {}", self.name, self.folder.display());
        let address = node.ready().await.with_context(log)?;
        self.note(Some(seat), Deed::Ready);
        *locked(&self.seats[seat].address) = address;
        *self.seats[seat].node.lock().await = Some(node);
        Ok(())
    }

    pub(crate) fn spawn(&self, seat: usize) -> anyhow::Result<Node> {
        let mut launch = locked(&self.seats[seat].launch);
        let node = Node::spawn(&launch)?;
        // Only defects outlive a restart.
        launch.faults.retain(|fault| !fault.starts_with("--failpoint"));
        Ok(node)
    }

    /// Gives a node a fault for its next start.
    pub(crate) fn arm(&self, seat: usize, fault: &str) {
        locked(&self.seats[seat].launch).faults.push(fault.to_owned());
    }

    /// Kills a node. False if there is none.
    pub(crate) async fn kill(&self, seat: usize) -> anyhow::Result<bool> {
        let Some(node) = self.seats[seat].node.lock().await.take() else { return Ok(false) };
        *locked(&self.seats[seat].address) = None;
        self.note(Some(seat), Deed::Died);
        node.kill().await?;
        self.tally.kills.add(1);
        Ok(true)
    }

    /// Waits until a node has ended by itself; false if it does not.
    pub(crate) async fn has_died(&self, seat: usize, within: Duration) -> bool {
        let mut node = self.seats[seat].node.lock().await;
        let Some(running) = node.as_mut() else { return true };
        if !running.ended(within).await {
            return false;
        }
        self.note(Some(seat), Deed::Died);
        *locked(&self.seats[seat].address) = None;
        *node = None;
        self.tally.kills.add(1);
        true
    }

    pub(crate) async fn signal(&self, seat: usize, signal: Signal) -> anyhow::Result<()> {
        let node = self.seats[seat].node.lock().await;
        node.as_ref().context("no node to signal")?.signal(signal)
    }

    /// Breaks all connections of a node to the database.
    pub(crate) async fn disconnect(&self, seat: usize) -> anyhow::Result<()> {
        self.note(Some(seat), Deed::Disconnected);
        let node = NODES.get(seat).context("no such node")?;
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND usename = $1",
        )
        .bind(node)
        .execute(&self.pool)
        .await?;
        self.tally.terminations.add(1);
        Ok(())
    }

    /// Where a node listens, if it is there.
    pub(crate) fn address(&self, seat: usize) -> Option<String> {
        locked(&self.seats[seat].address).clone()
    }

    /// Writes down what is done now.
    pub(crate) fn note(&self, node: Option<usize>, deed: Deed) {
        locked(&self.book).push(Entry { at: SystemTime::now(), node, deed });
    }

    pub(crate) fn book(&self) -> Vec<Entry> {
        locked(&self.book).clone()
    }

    /// The mark of a failpoint.
    pub(crate) fn mark(&self, point: &str, kind: &str) -> PathBuf {
        self.folder.join("marks").join(format!("{point}.{kind}"))
    }

    pub(crate) fn red(&self, what: &str) {
        self.tally.red(&self.name, what);
    }
}

impl Seat {
    fn new(launch: Launch) -> Self {
        Self { launch: Mutex::new(launch), node: AsyncMutex::default(), address: Mutex::default() }
    }
}

/// A client with the key of the database.
fn client(database: &Database) -> anyhow::Result<reqwest::Client> {
    let key = format!("Bearer {}", database.key()).parse()?;
    let client =
        reqwest::Client::builder().default_headers(HeaderMap::from_iter([(AUTHORIZATION, key)]));
    Ok(client.no_proxy().timeout(Duration::from_secs(10)).build()?)
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
