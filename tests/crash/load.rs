//! Sessions that talk at the same time.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::arena::Arena;
use crate::plans::KINDS;
use crate::reader::Reader;
use crate::watch::Watch;

/// Clients at work.
#[derive(Debug)]
pub(crate) struct Load {
    arena: Arc<Arena>,
    talks: JoinSet<anyhow::Result<()>>,
    stop: CancellationToken,
    readers: Vec<Reader>,
    watch: Watch,
}

impl Load {
    /// Starts so many sessions. Half of them are followed.
    pub(crate) async fn start(
        arena: &Arc<Arena>,
        sessions: usize,
        rng: &mut Rng,
    ) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let mut talks = JoinSet::new();
        let mut readers = Vec::new();
        for number in 0..sessions {
            let session = arena.session().await?;
            if number % 2 == 0 {
                readers.push(Reader::start(arena, &session));
            }
            let talk = talk(Arc::clone(arena), session, number, rng.fork(), stop.clone());
            talks.spawn(talk);
        }
        let watch = Watch::start(arena);
        Ok(Self { arena: Arc::clone(arena), talks, stop, readers, watch })
    }

    /// Lets the clients come to their ends, and checks all that was left.
    pub(crate) async fn finish(mut self) -> anyhow::Result<()> {
        self.stop.cancel();
        while let Some(talk) = self.talks.join_next().await {
            if let Err(error) = talk? {
                self.arena.red(&format!("a client gave up: {error:#}"));
            }
        }
        self.arena.settle_and_check().await?;
        for reader in self.readers {
            reader.finish().await;
        }
        self.watch.finish().await;
        Ok(())
    }
}

async fn talk(
    arena: Arc<Arena>,
    session: String,
    number: usize,
    mut rng: Rng,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    for turn in 0.. {
        if stop.is_cancelled() {
            break;
        }
        let kind = rng.choice(KINDS).unwrap_or("say");
        let (text, seat) = (format!("{kind}.s{number}t{turn}"), rng.usize(..2));
        let run = if rng.u8(..15) == 0 {
            arena.interrupt(seat, &session, &text).await?
        } else {
            arena.post(seat, &session, &text).await?
        };
        if rng.u8(..15) == 0 {
            sleep(Duration::from_millis(rng.u64(..300))).await;
            arena.cancel(seat, &session, &run).await?;
        }
        // Now and then a message comes before the last one is answered.
        if rng.u8(..4) > 0 {
            let settled = arena.settled(&run, Duration::from_mins(1));
            stop.run_until_cancelled(settled).await;
        }
        sleep(Duration::from_millis(rng.u64(..120))).await;
    }
    Ok(())
}
