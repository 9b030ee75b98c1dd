//! Load: sessions whose clients post messages at the same time.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::conversations::KINDS;
use crate::reader::Reader;
use crate::testbed::Testbed;
use crate::watch::Watch;

/// How many clients to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clients {
    /// The number of sessions. Each has a client that posts messages.
    pub(crate) sessions: usize,
    /// The number of sessions whose events are followed.
    pub(crate) readers: usize,
    /// The kinds of conversations from which the clients choose.
    pub(crate) kinds: &'static [&'static str],
}

impl Clients {
    /// Returns clients with conversations of all kinds. Every second session is followed.
    pub(crate) const fn mixed(sessions: usize) -> Self {
        Self { sessions, readers: sessions.div_ceil(2), kinds: &KINDS }
    }
}

/// The running clients.
#[derive(Debug)]
pub(crate) struct Load {
    testbed: Arc<Testbed>,
    conversations: JoinSet<anyhow::Result<()>>,
    stop: CancellationToken,
    readers: Vec<Reader>,
    watch: Watch,
}

impl Load {
    /// Starts the clients.
    pub(crate) async fn start(
        testbed: &Arc<Testbed>,
        clients: Clients,
        rng: &mut Rng,
    ) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let mut conversations = JoinSet::new();
        let mut readers = Vec::new();
        for number in 0..clients.sessions {
            let session = testbed.session().await?;
            if number < clients.readers {
                readers.push(Reader::start(testbed, &session));
            }
            let client = Client { testbed: Arc::clone(testbed), session, number, rng: rng.fork() };
            conversations.spawn(client.converse(clients.kinds, stop.clone()));
        }
        let watch = Watch::start(testbed);
        Ok(Self { testbed: Arc::clone(testbed), conversations, stop, readers, watch })
    }

    /// As [`Load::finish`], with more time for the runs to settle.
    pub(crate) async fn finish_within(mut self, within: Duration) -> anyhow::Result<()> {
        self.stop_clients().await?;
        self.testbed.settle_within(within).await?;
        self.finish().await
    }

    /// Waits for the clients and checks the stored state.
    pub(crate) async fn finish(mut self) -> anyhow::Result<()> {
        self.stop_clients().await?;
        self.testbed.settle_and_check().await?;
        for reader in self.readers {
            reader.finish().await;
        }
        self.watch.finish().await;
        Ok(())
    }

    async fn stop_clients(&mut self) -> anyhow::Result<()> {
        self.stop.cancel();
        while let Some(conversation) = self.conversations.join_next().await {
            if let Err(error) = conversation? {
                self.testbed.violation(&format!("a client failed: {error:#}"));
            }
        }
        Ok(())
    }
}

/// The client of one session.
struct Client {
    testbed: Arc<Testbed>,
    session: String,
    number: usize,
    rng: Rng,
}

impl Client {
    async fn converse(
        self,
        kinds: &'static [&'static str],
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let Self { testbed, session, number, mut rng } = self;
        for turn in 0.. {
            if stop.is_cancelled() {
                break;
            }
            let kind = rng.choice(kinds).copied().unwrap_or("say");
            let (text, index) = (format!("{kind}.s{number}t{turn}"), rng.usize(..2));
            let run = if rng.u8(..15) == 0 {
                testbed.interrupt(index, &session, &text).await?
            } else {
                testbed.post(index, &session, &text).await?
            };
            if rng.u8(..15) == 0 {
                sleep(Duration::from_millis(rng.u64(..300))).await;
                testbed.cancel(index, &session, &run).await?;
            }
            // One message in four is posted while the previous run is still active.
            if rng.u8(..4) > 0 {
                let settled = testbed.settled(&run, Duration::from_mins(1));
                stop.run_until_cancelled(settled).await;
            }
            sleep(Duration::from_millis(rng.u64(..120))).await;
        }
        Ok(())
    }
}
