//! Webhooks: sends what the outbox has, at least once, and again if it was not taken.
//!
//! Every process that works on runs sends. Who takes a delivery has it for a while; if it dies
//! meanwhile, another sends it once more, with the same id.

mod attempt;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::domain::ids::WebhookId;
use crate::metrics::{Metrics, WebhookOutcome};
use crate::outbound::Outbound;
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::deliveries::{Due, Most, Next, claim_due, settle, sweep};
use crate::store::webhooks::note_gone;
pub use attempt::TIMEOUT;
use attempt::{Attempt, GONE};

/// How often the outbox is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often what ended long ago is deleted.
const SWEEP_EVERY: Duration = Duration::from_mins(10);
/// How long a delivery that was taken is left to who took it: more than any attempt takes.
const TAKEN_FOR: Duration = Duration::from_mins(1);
/// Attempts at a time for one webhook, for one tenant, and for all.
const OF_WEBHOOK: i64 = 8;
const OF_TENANT: i64 = 16;
const ALL: i64 = 128;
/// Time for attempts under way, when the process stops.
const DRAIN_FOR: Duration = Duration::from_secs(5);

/// The attempts that are under way, and whose they are.
type Busy = HashMap<Id, WebhookId>;

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
        let sender = Arc::new(self);
        tokio::join!(sender.send_all(&stop), stop.run_until_cancelled(sender.sweep_all()));
    }

    async fn send_all(self: &Arc<Self>, stop: &CancellationToken) {
        // Attempts are tasks of their own: what answers in time is heard in time.
        let mut under_way = JoinSet::new();
        let mut busy = Busy::new();
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = look.tick() => {}
                Some(ended) = under_way.join_next_with_id() => one_less(&mut busy, ended),
            }
            for due in self.take(&busy).await {
                let webhook = due.webhook_id;
                let sender = Arc::clone(self);
                let task = under_way.spawn(async move { sender.send(due).await });
                busy.insert(task.id(), webhook);
            }
        }
        // What does not end in time is sent once more, by somebody else.
        let _ = timeout(DRAIN_FOR, async { while under_way.join_next().await.is_some() {} }).await;
    }

    /// Takes what is due, as far as there is room.
    async fn take(&self, busy: &Busy) -> Vec<Due> {
        let mut counts = HashMap::<WebhookId, i64>::new();
        for webhook in busy.values() {
            *counts.entry(*webhook).or_default() += 1;
        }
        let more = ALL - counts.values().sum::<i64>();
        let most = Most { of_webhook: OF_WEBHOOK, of_tenant: OF_TENANT, more };
        let counts: Vec<_> = counts.into_iter().collect();
        let due = self.pool.with(async |conn| claim_due(conn, &counts, most, TAKEN_FOR).await);
        due.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "webhook outbox could not be read");
            Vec::new()
        })
    }

    async fn send(&self, due: Due) {
        let attempt = Attempt::make(&self.outbound, &due).await;
        let next = attempt.next(due.attempt);
        self.metrics.webhook_attempt(outcome(next));
        let settled = self.pool.with(async |conn| {
            // First: a reader who sees the failed delivery also sees that the webhook is disabled.
            if attempt.status == Some(GONE) {
                note_gone(conn, due.webhook_id, &due.url).await?;
            }
            let how = (attempt.status, attempt.error.as_deref());
            settle(conn, (due.id, due.taken_until), how, next).await
        });
        let (webhook, delivery) = (due.webhook_id, due.id);
        if let Err(error) = settled.await {
            tracing::warn!(%webhook, %delivery, %error, "outcome of a webhook delivery could not be stored");
        } else if let Some(error) = &attempt.error {
            tracing::info!(%webhook, %delivery, attempt = due.attempt, error, "webhook delivery failed");
        }
    }

    async fn sweep_all(&self) {
        let mut clean = interval(SWEEP_EVERY);
        loop {
            clean.tick().await;
            let swept = self.pool.with(async |conn| {
                while sweep(conn).await? {}
                Ok::<_, StoreError>(())
            });
            if let Err(error) = swept.await {
                tracing::warn!(%error, "settled webhook deliveries could not be deleted");
            }
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

/// Notes that an attempt has ended, in whatever way.
fn one_less(busy: &mut Busy, ended: Result<(Id, ()), JoinError>) {
    let task = match ended {
        Ok((task, ())) => task,
        Err(error) => {
            tracing::error!(%error, "an attempt has failed, and will be made again");
            error.id()
        }
    };
    busy.remove(&task);
}
