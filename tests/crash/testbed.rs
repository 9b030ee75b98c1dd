//! The environment of one scenario: two nodes on one database, a simulated model, a workspace, and
//! a record of the faults that were injected.

use std::collections::HashMap;
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
use crate::conversations;
use crate::node::{Launch, Node, Role};
use crate::tally::Tally;

/// An event of a node, or of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeEvent {
    /// Its process has died.
    Died,
    /// It has reported that it is ready.
    Ready,
    /// It is paused, or its leases have expired: other nodes may take over its runs.
    Stopped,
    /// Its connections to the database were cut.
    Disconnected,
}

/// A recorded event of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedEvent {
    pub(crate) at: SystemTime,
    /// `None` means all nodes.
    pub(crate) node: Option<usize>,
    pub(crate) kind: NodeEvent,
}

/// A node, whether its process runs or not.
#[derive(Debug)]
pub(crate) struct NodeHandle {
    launch: Mutex<Launch>,
    pub(crate) process: AsyncMutex<Option<Node>>,
    address: Mutex<Option<String>>,
}

/// The settings of a testbed.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    /// More options per node. Those that inject faults apply to the first start only.
    pub(crate) faults: [Vec<String>; 2],
    /// Seconds by which the clock of each node is ahead, if it is wrong.
    pub(crate) clocks: [Option<i64>; 2],
    /// Whether the first node only accepts messages and the second only executes runs.
    pub(crate) is_split: bool,
    /// The program; `Suite` fills it in.
    pub(crate) program: PathBuf,
    /// The URL of the trace collector; `Suite` fills it in.
    pub(crate) collector: String,
    /// The ports of proxies to the database.
    pub(crate) proxies: [Option<u16>; 2],
}

/// The environment of one scenario.
#[derive(Debug)]
pub(crate) struct Testbed {
    pub(crate) name: String,
    pub(crate) database: Database,
    pub(crate) pool: PgPool,
    pub(crate) simulator: Running,
    pub(crate) folder: PathBuf,
    pub(crate) nodes: [NodeHandle; 2],
    pub(crate) http: reqwest::Client,
    pub(crate) tally: Arc<Tally>,
    node_events: Mutex<Vec<RecordedEvent>>,
    /// The idempotency keys of accepted messages, with the ids of their runs.
    pub(crate) accepted: Mutex<Vec<(String, String)>>,
    /// The number of tries to post the message with a key that were not answered.
    pub(crate) unanswered: Mutex<HashMap<String, i32>>,
    pub(crate) sessions: Mutex<Vec<String>>,
}

impl Testbed {
    /// Creates a testbed; its nodes are not started.
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
        let simulator = Simulator::start(listener, conversations::script()?, Options::recording());
        let Setup { faults, clocks, proxies, is_split, program, collector } = setup;
        let roles = if is_split { [Role::Accept, Role::Work] } else { [Role::All; 2] };
        let launch = |index: usize, faults: Vec<String>| {
            let node = NODES.get(index).copied().unwrap_or_default();
            let proxy = proxies.get(index).copied().flatten();
            Launch {
                program: program.clone(),
                role: roles[index],
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
                clock: clocks.get(index).copied().flatten(),
                faults,
            }
        };
        let [first, second] = faults;
        let nodes = [NodeHandle::new(launch(0, first)), NodeHandle::new(launch(1, second))];
        Ok(Arc::new(Self {
            name: name.to_owned(),
            pool: database.pool(),
            http: client(&database)?,
            tally: Arc::clone(tally),
            database,
            simulator,
            folder,
            nodes,
            node_events: Mutex::default(),
            accepted: Mutex::default(),
            unanswered: Mutex::default(),
            sessions: Mutex::default(),
        }))
    }

    /// Starts both nodes.
    pub(crate) async fn start_all(&self) -> anyhow::Result<()> {
        let (first, second) = tokio::join!(self.start(0), self.start(1));
        first.and(second)
    }

    /// Starts a node and waits until it is ready. Later starts have no failpoints.
    pub(crate) async fn start(&self, index: usize) -> anyhow::Result<()> {
        let mut node = self.spawn(index)?;
        let log = || format!("{}: see {}", self.name, self.folder.display());
        let address = node.ready().await.with_context(log)?;
        self.record(Some(index), NodeEvent::Ready);
        *locked(&self.nodes[index].address) = address;
        *self.nodes[index].process.lock().await = Some(node);
        Ok(())
    }

    pub(crate) fn spawn(&self, index: usize) -> anyhow::Result<Node> {
        let mut launch = locked(&self.nodes[index].launch);
        let node = Node::spawn(&launch)?;
        // Only deliberate defects also apply to later starts.
        launch.faults.retain(|fault| !fault.starts_with("--failpoint"));
        Ok(node)
    }

    /// Adds a fault to the next start of a node.
    pub(crate) fn arm(&self, index: usize, fault: &str) {
        locked(&self.nodes[index].launch).faults.push(fault.to_owned());
    }

    /// Kills a node. Returns false if it does not run.
    pub(crate) async fn kill(&self, index: usize) -> anyhow::Result<bool> {
        let Some(node) = self.nodes[index].process.lock().await.take() else { return Ok(false) };
        *locked(&self.nodes[index].address) = None;
        self.record(Some(index), NodeEvent::Died);
        node.kill().await?;
        self.tally.kills.add(1);
        Ok(true)
    }

    /// Waits until a node exits without being killed by the test; returns false if it does not.
    pub(crate) async fn has_died(&self, index: usize, within: Duration) -> bool {
        let mut node = self.nodes[index].process.lock().await;
        let Some(running) = node.as_mut() else { return true };
        if !running.wait_for_exit(within).await {
            return false;
        }
        self.record(Some(index), NodeEvent::Died);
        *locked(&self.nodes[index].address) = None;
        *node = None;
        self.tally.kills.add(1);
        true
    }

    pub(crate) async fn signal(&self, index: usize, signal: Signal) -> anyhow::Result<()> {
        let node = self.nodes[index].process.lock().await;
        node.as_ref().context("no node to signal")?.signal(signal)
    }

    /// Terminates all database connections of a node.
    pub(crate) async fn disconnect(&self, index: usize) -> anyhow::Result<()> {
        self.record(Some(index), NodeEvent::Disconnected);
        let node = NODES.get(index).context("no such node")?;
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

    /// The address of a node, if it runs and listens.
    pub(crate) fn address(&self, index: usize) -> Option<String> {
        locked(&self.nodes[index].address).clone()
    }

    /// Records an event that happens now.
    pub(crate) fn record(&self, node: Option<usize>, kind: NodeEvent) {
        locked(&self.node_events).push(RecordedEvent { at: SystemTime::now(), node, kind });
    }

    pub(crate) fn node_events(&self) -> Vec<RecordedEvent> {
        locked(&self.node_events).clone()
    }

    /// The file by which a failpoint reports that it was reached.
    pub(crate) fn mark(&self, point: &str, kind: &str) -> PathBuf {
        self.folder.join("marks").join(format!("{point}.{kind}"))
    }

    pub(crate) fn violation(&self, message: &str) {
        self.tally.violation(&self.name, message);
    }
}

impl NodeHandle {
    fn new(launch: Launch) -> Self {
        Self {
            launch: Mutex::new(launch),
            process: AsyncMutex::default(),
            address: Mutex::default(),
        }
    }
}

/// An HTTP client that sends the API key of the database.
fn client(database: &Database) -> anyhow::Result<reqwest::Client> {
    let key = format!("Bearer {}", database.key()).parse()?;
    let client =
        reqwest::Client::builder().default_headers(HeaderMap::from_iter([(AUTHORIZATION, key)]));
    Ok(client.no_proxy().timeout(Duration::from_secs(10)).build()?)
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
