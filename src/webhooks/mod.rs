//! Webhooks: delivers the events in the outbox at least once, with retries.
//!
//! Every process that executes runs delivers. A delivery is claimed for a while; if the process
//! dies meanwhile, another one sends it again, with the same ID.

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
use attempt::{DeliveryAttempt, GONE};

/// Interval between two reads of the outbox.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval between two deletions of old deliveries.
const SWEEP_EVERY: Duration = Duration::from_mins(10);
/// Duration of the claim of a delivery: longer than any attempt.
const TAKEN_FOR: Duration = Duration::from_mins(1);
/// Maximum number of concurrent attempts for one webhook, for one tenant, and in all.
const OF_WEBHOOK: i64 = 8;
const OF_TENANT: i64 = 16;
const ALL: i64 = 128;
/// Time for attempts under way when the process stops.
const DRAIN_FOR: Duration = Duration::from_secs(5);

/// The webhooks of the attempts under way.
type Busy = HashMap<Id, WebhookId>;

/// Delivers events to the webhooks of all tenants.
#[derive(Debug)]
pub struct Sender {
    /// Connections for the outbox.
    pub pool: Connections,
    /// The client for outgoing requests, with its address rules.
    pub outbound: Outbound,
    /// The metrics.
    pub metrics: Arc<Metrics>,
}

impl Sender {
    /// Delivers until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let sender = Arc::new(self);
        tokio::join!(sender.send_all(&stop), stop.run_until_cancelled(sender.sweep_all()));
    }

    async fn send_all(self: &Arc<Self>, stop: &CancellationToken) {
        // Attempts are separate tasks: a slow receiver does not delay the others.
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
        // Deliveries that do not end in time are sent again by another process.
        let _ = timeout(DRAIN_FOR, async { while under_way.join_next().await.is_some() {} }).await;
    }

    /// Claims due deliveries, as far as the limits allow.
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
        let attempt = DeliveryAttempt::make(&self.outbound, &due).await;
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

/// Removes an attempt that has ended.
fn one_less(busy: &mut Busy, ended: Result<(Id, ()), JoinError>) {
    let task = match ended {
        Ok((task, ())) => task,
        Err(error) => {
            tracing::error!(%error, "webhook delivery task failed; the delivery is retried");
            error.id()
        }
    };
    busy.remove(&task);
}
