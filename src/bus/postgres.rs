//! The bus between processes that share a database: one connection listens, one tells.
//!
//! NOTIFY takes a lock of the whole server at commit, so nothing is told from the transactions
//! that change something: what waits is told in one statement a tick. What is lost here, with a
//! connection or behind a pooler that does not pass notifications on, costs only time.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Bus;
use super::wire::{Message, Packer};

const CHANNEL: &str = "twostep";
/// The least time between two tellings: what comes in between is told together.
const TICK: Duration = Duration::from_millis(50);
/// How often a process says that it is here. It must hear itself before it says so again, or its
/// listener is deaf.
const HELLO_EVERY: Duration = Duration::from_secs(5);
/// What a statement may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before the next try; meanwhile readers look in the database themselves.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Why the link broke.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error("the connection was lost")]
    Lost,
    #[error("the listener does not hear what is told")]
    Deaf,
    #[error("the server does not answer")]
    Silent,
}

/// Links this process with the others until it is told to stop. The pool says how to connect;
/// only the farewell is sent through it.
pub async fn link(bus: Arc<Bus>, pool: PgPool, stop: CancellationToken) {
    let mut is_up = true;
    while let Some(Err(broken)) =
        stop.run_until_cancelled(Box::pin(live(&bus, &pool, &mut is_up))).await
    {
        bus.outbox.forget();
        if std::mem::take(&mut is_up) {
            tracing::warn!(error = %broken, "the link to other processes is down");
        }
        // Without the link nobody says when there is something to read.
        bus.look_everywhere();
        if stop.run_until_cancelled(sleep(RETRY_EVERY)).await.is_none() {
            break;
        }
    }
    // Best effort: who does not hear it, forgets us a little later.
    if let Ok(Ok(mut conn)) = timeout(RETRY_EVERY, pool.acquire()).await {
        let mut packer = Packer::new(bus.id);
        let _ = timeout(RETRY_EVERY, tell(&mut conn, &packer.pack(&[Message::Bye]))).await;
    }
}

/// One life of the link, from its connections to their end.
async fn live(bus: &Bus, pool: &PgPool, is_up: &mut bool) -> Result<(), Broken> {
    // Of its own: connections of an earlier life that fell silent may take long to be given up.
    let pool = pool.options().clone().connect_lazy_with((*pool.connect_options()).clone());
    let mut listener = in_time(listen(&pool)).await?;
    let conn: PoolConnection<Postgres> = in_time(pool.acquire()).await?;
    let mut link = Link::new(bus, conn);
    if !std::mem::replace(is_up, true) {
        tracing::info!("the link to other processes is up again");
    }
    // What was told before anybody listened must be looked for.
    bus.look_everywhere();
    bus.outbox.push(Message::Hello { is_new: true });

    let mut hello = interval(HELLO_EVERY);
    hello.set_missed_tick_behavior(MissedTickBehavior::Delay);
    hello.reset();
    loop {
        tokio::select! {
            biased;
            heard = listener.try_recv() => {
                // Without a notification, the connection was lost and some may have been missed.
                let heard = heard?.ok_or(Broken::Lost)?;
                link.has_heard_itself |= bus.hear(heard.payload());
            }
            _ = hello.tick() => link.greet()?,
            () = link.is_due() => link.flush().await?,
        }
    }
}

async fn listen(pool: &PgPool) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    // A listener that connects again by itself would hide that something was missed.
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// The telling side.
struct Link<'a> {
    bus: &'a Bus,
    conn: PoolConnection<Postgres>,
    packer: Packer,
    told_at: Option<Instant>,
    has_heard_itself: bool,
}

impl<'a> Link<'a> {
    fn new(bus: &'a Bus, conn: PoolConnection<Postgres>) -> Self {
        let packer = Packer::new(bus.id);
        Self { bus, conn, packer, told_at: None, has_heard_itself: false }
    }

    /// Waits until there is something to tell and the tick allows it.
    async fn is_due(&self) {
        self.bus.outbox.filled().await;
        if let Some(told_at) = self.told_at {
            sleep_until(told_at + TICK).await;
        }
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        self.told_at = Some(Instant::now());
        let payloads = self.packer.pack(&self.bus.outbox.take());
        in_time(tell(&mut self.conn, &payloads)).await
    }

    fn greet(&mut self) -> Result<(), Broken> {
        if !std::mem::take(&mut self.has_heard_itself) {
            return Err(Broken::Deaf);
        }
        self.bus.outbox.expire();
        self.bus.outbox.push(Message::Hello { is_new: false });
        self.bus.watch_all(false);
        Ok(())
    }
}

async fn tell(conn: &mut PgConnection, payloads: &[String]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"SELECT pg_notify($1, payload) AS "told: ()" FROM unnest($2::text[]) AS payload"#,
        CHANNEL,
        payloads,
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn in_time<T>(work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Broken> {
    Ok(timeout(PATIENCE, work).await.map_err(|_| Broken::Silent)??)
}
