//! The link between processes that share a database: one connection listens, another notifies.
//!
//! A commit with NOTIFY takes a lock on the whole server. Therefore data-changing transactions do
//! not notify; one statement per tick sends all queued messages. Lost notifications, for example
//! behind a connection pooler that does not forward them, only add latency.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Bus;
use super::wire::{Message, Packer};

const CHANNEL: &str = "twostep";
/// Minimum time between two NOTIFY statements. Messages in between are sent together.
const TICK: Duration = Duration::from_millis(50);
/// Interval between the announcements of a process. The process must receive its own announcement
/// before the next one, otherwise its listener does not work.
const HELLO_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of a statement.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before the link is opened again. Meanwhile the readers poll the database.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The cause of a broken link.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error("the connection was lost")]
    Lost,
    #[error("the listener does not receive notifications")]
    NoEcho,
    #[error("the server does not answer")]
    Timeout,
}

/// Links this process with the others until `stop` is cancelled. The link opens its own
/// connections with the options of the pool; only the final message uses the pool itself.
pub async fn link(bus: Arc<Bus>, pool: PgPool, stop: CancellationToken) {
    let mut is_up = true;
    while let Some(Err(broken)) =
        stop.run_until_cancelled(Box::pin(serve(&bus, &pool, &mut is_up))).await
    {
        bus.outbox.clear();
        if std::mem::take(&mut is_up) {
            tracing::warn!(error = %broken, "link to other processes lost");
        }
        // Without the link there are no notifications, so the readers poll.
        bus.resync_all();
        if stop.run_until_cancelled(sleep(RETRY_DELAY)).await.is_none() {
            break;
        }
    }
    // Best effort: peers that miss the message remove this process after `PEER_LIFE`.
    if let Ok(Ok(mut conn)) = timeout(RETRY_DELAY, pool.acquire()).await {
        let mut packer = Packer::new(bus.id);
        let _ = timeout(RETRY_DELAY, notify(&mut conn, &packer.pack(&[Message::Bye]))).await;
    }
}

/// Opens the connections of the link and serves them until one fails.
async fn serve(bus: &Bus, pool: &PgPool, is_up: &mut bool) -> Result<(), LinkError> {
    // A new pool: hanging connections of the previous link can take long to close.
    let pool = pool.options().clone().connect_lazy_with((*pool.connect_options()).clone());
    let mut listener = in_time(listen(&pool)).await?;
    let conn: PoolConnection<Postgres> = in_time(pool.acquire()).await?;
    let mut link = Link::new(bus, conn);
    if !std::mem::replace(is_up, true) {
        tracing::info!("link to other processes restored");
    }
    // Notifications before the listener started are lost, so the readers read the database.
    bus.resync_all();
    bus.outbox.push(Message::Hello { is_new: true });

    let mut hello = interval(HELLO_INTERVAL);
    hello.set_missed_tick_behavior(MissedTickBehavior::Delay);
    hello.reset();
    loop {
        tokio::select! {
            biased;
            received = listener.try_recv() => {
                // `None`: the connection was lost, and notifications may have been missed.
                let received = received?.ok_or(LinkError::Lost)?;
                link.has_own_echo |= bus.handle_payload(received.payload());
            }
            _ = hello.tick() => link.send_hello()?,
            () = link.is_due() => link.flush().await?,
        }
    }
}

async fn listen(pool: &PgPool) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    // An automatic reconnect would hide that notifications were missed.
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// The sending side of the link.
struct Link<'a> {
    bus: &'a Bus,
    conn: PoolConnection<Postgres>,
    packer: Packer,
    notified_at: Option<Instant>,
    has_own_echo: bool,
}

impl<'a> Link<'a> {
    fn new(bus: &'a Bus, conn: PoolConnection<Postgres>) -> Self {
        let packer = Packer::new(bus.id);
        Self { bus, conn, packer, notified_at: None, has_own_echo: false }
    }

    /// Waits until the queue is not empty and the tick has passed.
    async fn is_due(&self) {
        self.bus.outbox.filled().await;
        if let Some(notified_at) = self.notified_at {
            sleep_until(notified_at + TICK).await;
        }
    }

    async fn flush(&mut self) -> Result<(), LinkError> {
        self.notified_at = Some(Instant::now());
        let payloads = self.packer.pack(&self.bus.outbox.drain());
        in_time(notify(&mut self.conn, &payloads)).await
    }

    fn send_hello(&mut self) -> Result<(), LinkError> {
        if !std::mem::take(&mut self.has_own_echo) {
            return Err(LinkError::NoEcho);
        }
        self.bus.outbox.expire();
        self.bus.outbox.push(Message::Hello { is_new: false });
        self.bus.watch_all(false);
        Ok(())
    }
}

async fn notify(conn: &mut PgConnection, payloads: &[String]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"SELECT pg_notify($1, payload) AS "sent: ()" FROM unnest($2::text[]) AS payload"#,
        CHANNEL,
        payloads,
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn in_time<T>(work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, LinkError> {
    Ok(timeout(STATEMENT_TIMEOUT, work).await.map_err(|_| LinkError::Timeout)??)
}
