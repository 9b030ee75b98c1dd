//! Webhooks: sends what the outbox has, at least once, and again if it was not taken.
//!
//! Every process that works on runs sends. Who takes a delivery has it for a while; if it dies
//! meanwhile, another sends it once more, with the same id.

mod attempt;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::domain::ids::WebhookId;
use crate::metrics::{Metrics, WebhookOutcome};
use crate::outbound::Outbound;
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::deliveries::{Due, Next, settle, sweep, take_due};
use crate::store::webhooks::note_gone;
pub use attempt::TIMEOUT;
use attempt::{Attempt, GONE};

/// How often the outbox is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often what ended long ago is deleted.
const SWEEP_EVERY: Duration = Duration::from_mins(10);
/// How long a delivery that was taken is left to who took it: more than any attempt takes.
const TAKEN_FOR: Duration = Duration::from_mins(1);
/// Attempts at a time for one webhook. One that is slow stands in nobody else's way.
const EACH: i64 = 8;
/// Attempts at a time for all.
const ALL: i64 = 64;
/// Time for attempts under way, when the process stops.
const DRAIN_FOR: Duration = Duration::from_secs(5);

/// How many attempts are under way, by webhook.
type Busy = HashMap<WebhookId, i64>;

/// Sends the deliveries of all tenants.
#[derive(Debug)]
pub struct Sender {
    /// For the outbox.
    pub pool: Connections,
    /// Who may be asked.
    pub outbound: Outbound,
    /// Where it is counted what happens.
    pub metrics: Arc<Metrics>,
}

impl Sender {
    /// Sends until it is told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let mut under_way = FuturesUnordered::new();
        let mut busy = Busy::new();
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut clean = interval(SWEEP_EVERY);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = clean.tick() => {
                    self.sweep().await;
                    continue;
                }
                _ = look.tick() => {}
                Some(webhook) = under_way.next() => one_less(&mut busy, webhook),
            }
            for due in self.take(&busy, ALL - busy.values().sum::<i64>()).await {
                *busy.entry(due.webhook_id).or_default() += 1;
                under_way.push(self.send(due));
            }
        }
        // What does not end in time is sent once more, by somebody else.
        let _ = timeout(DRAIN_FOR, async { while under_way.next().await.is_some() {} }).await;
    }

    /// Takes what is due, as far as there is room.
    async fn take(&self, busy: &Busy, room: i64) -> Vec<Due> {
        let busy: Vec<_> = busy.iter().map(|(id, count)| (*id, *count)).collect();
        let taken = async {
            let mut conn = self.pool.acquire().await?;
            let due = take_due(&mut conn, &busy, (EACH, room), TAKEN_FOR).await?;
            conn.give_back();
            Ok::<_, StoreError>(due)
        };
        taken.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the outbox of webhooks cannot be read");
            Vec::new()
        })
    }

    async fn send(&self, due: Due) -> WebhookId {
        let attempt = Attempt::make(&self.outbound, &due).await;
        let next = attempt.next(due.attempt);
        self.metrics.webhook_attempt(outcome(next));
        let settled = async {
            let mut conn = self.pool.acquire().await?;
            let how = (attempt.status, attempt.error.as_deref());
            settle(&mut conn, (due.id, due.attempt), how, next).await?;
            if attempt.status == Some(GONE) {
                note_gone(&mut conn, due.webhook_id).await?;
            }
            conn.give_back();
            Ok::<_, StoreError>(())
        };
        let (webhook, delivery) = (due.webhook_id, due.id);
        if let Err(error) = settled.await {
            tracing::warn!(%webhook, %delivery, %error, "an attempt was made and cannot be noted");
        } else if let Some(error) = &attempt.error {
            tracing::info!(%webhook, %delivery, attempt = due.attempt, error, "not delivered");
        }
        webhook
    }

    async fn sweep(&self) {
        let swept = async {
            let mut conn = self.pool.acquire().await?;
            while sweep(&mut conn).await? {}
            conn.give_back();
            Ok::<_, StoreError>(())
        };
        if let Err(error) = swept.await {
            tracing::warn!(%error, "the outbox of webhooks cannot be swept");
        }
    }
}

const fn outcome(next: Next) -> WebhookOutcome {
    match next {
        Next::Delivered => WebhookOutcome::Delivered,
        Next::After(_) => WebhookOutcome::Retried,
        Next::Failed => WebhookOutcome::Failed,
    }
}

/// Notes that an attempt has ended.
fn one_less(busy: &mut Busy, webhook: WebhookId) {
    if let Entry::Occupied(mut attempts) = busy.entry(webhook) {
        *attempts.get_mut() -= 1;
        if *attempts.get() == 0 {
            attempts.remove();
        }
    }
}
