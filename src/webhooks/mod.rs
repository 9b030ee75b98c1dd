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
use crate::store::deliveries::{
    AttemptOutcome, DeliveryLimits, DueDelivery, NextAttempt, claim_due, settle, sweep,
};
use crate::store::webhooks::disable_gone;
pub use attempt::TIMEOUT;
use attempt::{DeliveryAttempt, GONE};

/// Interval between two reads of the outbox.
const CLAIM_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two deletions of old deliveries.
const SWEEP_INTERVAL: Duration = Duration::from_mins(10);
/// Duration of the claim of a delivery: longer than any attempt.
const CLAIM_DURATION: Duration = Duration::from_mins(1);
/// Maximum number of concurrent attempts for one webhook, for one tenant, and in all.
const OF_WEBHOOK: i64 = 8;
const OF_TENANT: i64 = 16;
const ALL: i64 = 128;
/// Time for attempts under way when the process stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The webhooks of the attempts under way.
type InFlight = HashMap<Id, WebhookId>;

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
        let mut in_flight = InFlight::new();
        let mut ticks = interval(CLAIM_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = ticks.tick() => {}
                Some(ended) = under_way.join_next_with_id() => remove_ended(&mut in_flight, ended),
            }
            for due in self.claim_due(&in_flight).await {
                let webhook = due.webhook_id;
                let sender = Arc::clone(self);
                let task = under_way.spawn(async move { sender.send(due).await });
                in_flight.insert(task.id(), webhook);
            }
        }
        // Deliveries that do not end in time are sent again by another process.
        let _ =
            timeout(DRAIN_TIMEOUT, async { while under_way.join_next().await.is_some() {} }).await;
    }

    /// Claims due deliveries, as far as the limits allow.
    async fn claim_due(&self, in_flight: &InFlight) -> Vec<DueDelivery> {
        let mut counts = HashMap::<WebhookId, i64>::new();
        for webhook in in_flight.values() {
            *counts.entry(*webhook).or_default() += 1;
        }
        let more = ALL - counts.values().sum::<i64>();
        let limits = DeliveryLimits { of_webhook: OF_WEBHOOK, of_tenant: OF_TENANT, more };
        let counts: Vec<_> = counts.into_iter().collect();
        let due =
            self.pool.with(async |conn| claim_due(conn, &counts, limits, CLAIM_DURATION).await);
        due.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "webhook outbox could not be read");
            Vec::new()
        })
    }

    async fn send(&self, due: DueDelivery) {
        let attempt = DeliveryAttempt::make(&self.outbound, &due).await;
        let next = attempt.next(due.attempt);
        self.metrics.webhook_attempt(outcome(next));
        let settled = self.pool.with(async |conn| {
            // First: a reader who sees the failed delivery also sees that the webhook is disabled.
            if attempt.status == Some(GONE) {
                disable_gone(conn, due.webhook_id, &due.url).await?;
            }
            let DueDelivery { id, claimed_until, .. } = due;
            let (status, error) = (attempt.status, attempt.error.as_deref());
            settle(conn, AttemptOutcome { id, claimed_until, status, error, next }).await
        });
        let (webhook, delivery) = (due.webhook_id, due.id);
        if let Err(error) = settled.await {
            tracing::warn!(%webhook, %delivery, %error, "outcome of a webhook delivery could not be stored");
        } else if let Some(error) = &attempt.error {
            tracing::info!(%webhook, %delivery, attempt = due.attempt, error, "webhook delivery failed");
        }
    }

    async fn sweep_all(&self) {
        let mut clean = interval(SWEEP_INTERVAL);
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

const fn outcome(next: NextAttempt) -> WebhookOutcome {
    match next {
        NextAttempt::Delivered => WebhookOutcome::Delivered,
        NextAttempt::After(_) => WebhookOutcome::Retried,
        NextAttempt::Failed => WebhookOutcome::Failed,
    }
}

/// Removes an attempt that has ended.
fn remove_ended(in_flight: &mut InFlight, ended: Result<(Id, ()), JoinError>) {
    let task = match ended {
        Ok((task, ())) => task,
        Err(error) => {
            tracing::error!(%error, "webhook delivery task failed; the delivery is retried");
            error.id()
        }
    };
    in_flight.remove(&task);
}
