//! Metrics for operators, in the text format of Prometheus.
//!
//! A value rather than a global, because tests run many services in one process.

mod gauge_guard;
mod labels;
mod providers;
mod tool_servers;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::agent::repair::RepairKind;
use crate::domain::circuit::Circuit;
use crate::domain::prefix::PrefixChange;
use crate::domain::run_status::RunStatus;
use crate::domain::sent_history::SentHistoryChange;
use crate::spans::Spans;
use providers::ProviderMetrics;
pub use tool_servers::ReadReports;
use tool_servers::ToolServerMetrics;

pub use gauge_guard::GaugeGuard;
pub use labels::{ClaimedFrom, CompactionOutcome, RequestOutcome, WebhookOutcome};

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A counter for each value of one label.
type Counters = Family<[(&'static str, &'static str); 1], Counter>;

/// The metrics of one service.
pub struct Metrics {
    registry: Registry,
    repairs: Counters,
    sent_changes: Counters,
    prefix_changes: Counters,
    compactions: Counters,
    accepted: Counter,
    settled: Counters,
    claimed: Counters,
    leases_lost: Counter,
    steps_fenced: Counter,
    model_requests: Counters,
    providers: ProviderMetrics,
    model_retries: Counters,
    model_circuit_open: Gauge,
    /// None in a process that sends no model requests.
    model_circuit: Mutex<Option<Circuit>>,
    webhook_attempts: Counters,
    active: Gauge,
    queued: Gauge,
    oldest_queued: Gauge<f64, AtomicU64>,
    streams: Gauge,
    spans_dropped: Counter,
    spans: Spans,
}

impl Metrics {
    /// Creates all metrics with the value zero, so that zero is distinguished from absent.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("twostep");
        let this = Self {
            repairs: counters(
                &mut registry,
                "history_repairs",
                "Repairs of sent histories, by kind",
            ),
            sent_changes: counters(
                &mut registry,
                "sent_history_changes",
                "Permanent changes of sent histories, by kind",
            ),
            compactions: counters(
                &mut registry,
                "compactions",
                "Compactions of histories, by outcome",
            ),
            prefix_changes: counters(
                &mut registry,
                "prefix_changes",
                "Model requests that did not repeat the previous request as a prefix, by level",
            ),
            accepted: counter(&mut registry, "runs_accepted", "Runs accepted"),
            settled: counters(&mut registry, "runs_settled", "Runs settled, by status"),
            claimed: counters(&mut registry, "runs_claimed", "Runs claimed by workers, by origin"),
            leases_lost: counter(&mut registry, "leases_lost", "Runs stopped by a lost lease"),
            steps_fenced: counter(&mut registry, "steps_fenced", "Steps refused by fencing"),
            model_requests: counters(&mut registry, "model_requests", "Model requests, by outcome"),
            providers: ProviderMetrics::new(&mut registry),
            model_retries: counters(
                &mut registry,
                "model_retries",
                "Retries of model requests, by outcome",
            ),
            model_circuit_open: gauge(
                &mut registry,
                "model_circuit_open",
                "1 while the circuit breaker of a model is open, otherwise 0",
            ),
            model_circuit: Mutex::default(),
            webhook_attempts: counters(
                &mut registry,
                "webhook_attempts",
                "Webhook delivery attempts, by outcome",
            ),
            active: gauge(&mut registry, "runs_active", "Runs that this process executes"),
            queued: gauge(&mut registry, "runs_queued", "Queued runs of all processes"),
            oldest_queued: seconds(
                &mut registry,
                "runs_queued_oldest_seconds",
                "Time for which the oldest queued run of all processes has waited",
            ),
            streams: gauge(&mut registry, "streams_open", "Open event streams"),
            spans_dropped: counter(&mut registry, "spans_dropped", "Spans that were not exported"),
            spans: Spans::default(),
            registry,
        };
        this.initialize_labels();
        this
    }

    fn initialize_labels(&self) {
        for kind in RepairKind::ALL {
            let _ = self.repairs.get_or_create(&[("kind", kind.as_str())]);
        }
        for kind in SentHistoryChange::KINDS {
            let _ = self.sent_changes.get_or_create(&[("kind", kind)]);
        }
        for outcome in CompactionOutcome::ALL {
            let _ = self.compactions.get_or_create(&[("outcome", outcome.as_str())]);
        }
        for level in PrefixChange::LEVELS {
            let _ = self.prefix_changes.get_or_create(&[("level", level)]);
        }
        for status in [RunStatus::Completed, RunStatus::Failed, RunStatus::Cancelled] {
            let _ = self.settled.get_or_create(&[("status", status.as_str())]);
        }
        for from in ClaimedFrom::ALL {
            let _ = self.claimed.get_or_create(&[("how", from.as_str())]);
        }
        for outcome in ["sent", "withheld"] {
            let _ = self.model_retries.get_or_create(&[("outcome", outcome)]);
        }
        for outcome in WebhookOutcome::ALL {
            let _ = self.webhook_attempts.get_or_create(&[("outcome", outcome.as_str())]);
        }
        for outcome in RequestOutcome::ALL {
            let _ = self.model_requests.get_or_create(&[("outcome", outcome.as_str())]);
        }
    }

    /// Returns the span factory.
    pub const fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Returns these metrics with another span factory.
    #[must_use]
    pub fn with_spans(self, spans: Spans) -> Self {
        Self { spans, ..self }
    }

    /// Returns these metrics with those of the tool servers added.
    #[must_use]
    pub fn with_tool_servers(mut self, read: ReadReports) -> Self {
        self.registry.register_collector(Box::new(ToolServerMetrics(read)));
        self
    }

    /// Returns these metrics with the counter of log lines that were lost.
    #[must_use]
    pub fn with_lost_log_lines(mut self, lost: Counter) -> Self {
        self.registry.register("log_lines_lost", "Log lines that were not written", lost);
        self
    }

    /// Returns the counter of spans that were not exported.
    pub fn spans_dropped(&self) -> Counter {
        self.spans_dropped.clone()
    }

    /// Counts a repair of a sent history.
    pub fn history_repaired(&self, kind: RepairKind) {
        self.repairs.get_or_create(&[("kind", kind.as_str())]).inc();
    }

    /// Counts a permanent change of a sent history.
    pub fn sent_changed(&self, change: &SentHistoryChange) {
        self.sent_changes.get_or_create(&[("kind", change.kind())]).inc();
    }

    /// Counts a request that did not repeat the previous one as a prefix.
    pub fn prefix_changed(&self, change: PrefixChange) {
        self.prefix_changes.get_or_create(&[("level", change.level())]).inc();
    }

    /// Counts a compaction.
    pub fn compaction(&self, outcome: CompactionOutcome) {
        self.compactions.get_or_create(&[("outcome", outcome.as_str())]).inc();
    }

    /// Counts an accepted message.
    pub fn run_accepted(&self) {
        self.accepted.inc();
    }

    /// Counts a settled run.
    pub fn run_settled(&self, status: RunStatus) {
        self.settled.get_or_create(&[("status", status.as_str())]).inc();
    }

    /// Counts claimed runs.
    pub fn runs_claimed(&self, from: ClaimedFrom, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.claimed.get_or_create(&[("how", from.as_str())]).inc_by(count);
    }

    /// Counts a run whose driver stopped because its lease may have expired.
    pub fn lease_lost(&self) {
        self.leases_lost.inc();
    }

    /// Counts a step that fencing refused.
    pub fn step_fenced(&self) {
        self.steps_fenced.inc();
    }

    /// Counts a finished model request to this provider.
    pub fn model_request(&self, provider: &str, outcome: RequestOutcome) {
        self.model_requests.get_or_create(&[("outcome", outcome.as_str())]).inc();
        self.providers.request(provider, outcome);
    }

    /// Counts a retry of a failed model request.
    pub fn model_retried(&self) {
        self.model_retries.get_or_create(&[("outcome", "sent")]).inc();
    }

    /// Counts a request that a fallback model receives.
    pub fn model_fallback(&self) {
        self.providers.fallback();
    }

    /// Counts a failed model request that is not retried because the retry budget is used up.
    pub fn model_retry_withheld(&self) {
        self.model_retries.get_or_create(&[("outcome", "withheld")]).inc();
    }

    /// Sets the worst state of the models' circuit breakers.
    pub fn model_circuit(&self, circuit: Circuit) {
        self.model_circuit_open.set(i64::from(circuit != Circuit::Closed));
        *self.model_circuit.lock().unwrap_or_else(PoisonError::into_inner) = Some(circuit);
    }

    /// Sets the worst state of the circuit breakers of a provider's models.
    pub fn provider_circuit(&self, provider: &str, circuit: Circuit) {
        self.providers.circuit(provider, circuit);
    }

    /// Returns the worst state of the models' circuit breakers; none in a process without model requests.
    pub fn circuit(&self) -> Option<Circuit> {
        *self.model_circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a webhook delivery attempt.
    pub fn webhook_attempt(&self, outcome: WebhookOutcome) {
        self.webhook_attempts.get_or_create(&[("outcome", outcome.as_str())]).inc();
    }

    /// Counts a run as active until the guard is dropped.
    pub fn active_run(&self) -> GaugeGuard {
        GaugeGuard::new(&self.active)
    }

    /// Sets the length of the queue of all processes, and the wait of its oldest run in seconds.
    pub fn queue(&self, length: i64, oldest_seconds: f64) {
        self.queued.set(length);
        self.oldest_queued.set(oldest_seconds);
    }

    /// Counts a stream as open until the guard is dropped.
    pub fn open_stream(&self) -> GaugeGuard {
        GaugeGuard::new(&self.streams)
    }

    /// Encodes all metrics as text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::<u64, AtomicU64>::default();
    registry.register(name, help, counter.clone());
    counter
}

fn counters(registry: &mut Registry, name: &str, help: &str) -> Counters {
    let counters = Counters::default();
    registry.register(name, help, counters.clone());
    counters
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

fn seconds(registry: &mut Registry, name: &str, help: &str) -> Gauge<f64, AtomicU64> {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_start_at_zero_and_count_events() {
        let metrics = Metrics::new();
        let has = |line: &str| metrics.encode().unwrap().lines().any(|found| found == line);
        assert!(has(r#"twostep_history_repairs_total{kind="late_result"} 0"#));
        assert!(has("twostep_runs_active 0"));
        metrics.history_repaired(RepairKind::LateResult);
        metrics.runs_claimed(ClaimedFrom::ExpiredLease, 2);
        let run = metrics.active_run();
        assert!(has(r#"twostep_history_repairs_total{kind="late_result"} 1"#));
        assert!(has(r#"twostep_runs_claimed_total{how="expired"} 2"#));
        assert!(has("twostep_runs_active 1"));
        drop(run);
        assert!(has("twostep_runs_active 0"));
    }
}
