//! Figures for those who run the service, in the text format that Prometheus reads.
//!
//! A value and not a global: tests run many services in one process.

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
use crate::domain::run::RunStatus;
use crate::domain::sent::SentChange;
use crate::spans::Spans;
pub use tool_servers::ReadReports;
use tool_servers::ToolServerFigures;

/// What [`Metrics::encode`] writes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A counter for each value of one label.
type Counters = Family<[(&'static str, &'static str); 1], Counter>;

/// Where a run that a worker takes up comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimedFrom {
    /// The queue.
    Queue,
    /// A worker that did not renew its lease.
    ExpiredLease,
    /// The request that accepted it.
    HandOver,
    /// Its calls waited for somebody.
    Wait,
}

impl ClaimedFrom {
    const ALL: [Self; 4] = [Self::Queue, Self::ExpiredLease, Self::HandOver, Self::Wait];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queued",
            Self::ExpiredLease => "expired",
            Self::HandOver => "handed",
            Self::Wait => "woken",
        }
    }
}

/// What became of a history that was to be summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionOutcome {
    /// A summary stands for it.
    Done,
    /// There is none.
    Failed,
}

impl CompactionOutcome {
    const ALL: [Self; 2] = [Self::Done, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// How a request to the model ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// With a reply.
    Replied,
    /// With an error.
    Failed,
    /// With the run being told to stop.
    Stopped,
}

impl RequestOutcome {
    const ALL: [Self; 3] = [Self::Replied, Self::Failed, Self::Stopped];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Replied => "replied",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// How an attempt to deliver to a webhook ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// It was taken.
    Delivered,
    /// It will be sent again.
    Retried,
    /// It is given up.
    Failed,
}

impl WebhookOutcome {
    const ALL: [Self; 3] = [Self::Delivered, Self::Retried, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retried => "retried",
            Self::Failed => "failed",
        }
    }
}

/// The figures of one service.
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
    model_retries: Counters,
    model_circuit_open: Gauge,
    /// None in a process that asks no model.
    model_circuit: Mutex<Option<Circuit>>,
    webhook_attempts: Counters,
    active: Gauge,
    streams: Gauge,
    spans_dropped: Counter,
    spans: Spans,
}

impl Metrics {
    /// Figures that are all zero, and all there: what is missing cannot be told from zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("twostep");
        let this = Self {
            repairs: counters(&mut registry, "history_repairs", "Repairs of a sent history"),
            sent_changes: counters(
                &mut registry,
                "sent_history_changes",
                "Parts of a history that are sent no more",
            ),
            compactions: counters(
                &mut registry,
                "compactions",
                "Histories that were to be summed up for the model",
            ),
            prefix_changes: counters(
                &mut registry,
                "prefix_changes",
                "Requests that did not begin as the one before, by where",
            ),
            accepted: counter(&mut registry, "runs_accepted", "Runs accepted"),
            settled: counters(&mut registry, "runs_settled", "Runs settled, by status"),
            claimed: counters(
                &mut registry,
                "runs_claimed",
                "Runs taken up, by where they came from",
            ),
            leases_lost: counter(&mut registry, "leases_lost", "Runs dropped for a lost lease"),
            steps_fenced: counter(&mut registry, "steps_fenced", "Steps refused by the fence"),
            model_requests: counters(&mut registry, "model_requests", "Model requests, by outcome"),
            model_retries: counters(
                &mut registry,
                "model_retries",
                "Model requests that were to be sent again, by outcome",
            ),
            model_circuit_open: gauge(
                &mut registry,
                "model_circuit_open",
                "Whether the model is left alone because it fails everybody",
            ),
            model_circuit: Mutex::default(),
            webhook_attempts: counters(
                &mut registry,
                "webhook_attempts",
                "Attempts to deliver to a webhook, by outcome",
            ),
            active: gauge(
                &mut registry,
                "runs_active",
                "Runs that a worker of this process drives",
            ),
            streams: gauge(&mut registry, "streams_open", "Event streams that are held"),
            spans_dropped: counter(
                &mut registry,
                "spans_dropped",
                "Spans of traces that no collector took",
            ),
            spans: Spans::default(),
            registry,
        };
        this.begin_at_zero();
        this
    }

    fn begin_at_zero(&self) {
        for kind in RepairKind::ALL {
            let _ = self.repairs.get_or_create(&[("kind", kind.as_str())]);
        }
        for kind in SentChange::KINDS {
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

    /// Where spans of traces begin.
    pub const fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The same figures of a process whose spans begin there.
    #[must_use]
    pub fn with_spans(self, spans: Spans) -> Self {
        Self { spans, ..self }
    }

    /// The same figures, with those of servers of tools.
    #[must_use]
    pub fn with_tool_servers(mut self, read: ReadReports) -> Self {
        self.registry.register_collector(Box::new(ToolServerFigures(read)));
        self
    }

    /// Counts spans that no collector took.
    pub fn spans_dropped(&self) -> Counter {
        self.spans_dropped.clone()
    }

    /// A history was sent otherwise than it is stored.
    pub fn history_repaired(&self, kind: RepairKind) {
        self.repairs.get_or_create(&[("kind", kind.as_str())]).inc();
    }

    /// A part of a history is sent no more.
    pub fn sent_changed(&self, change: &SentChange) {
        self.sent_changes.get_or_create(&[("kind", change.kind())]).inc();
    }

    /// A request did not begin as the one before it in its session.
    pub fn prefix_changed(&self, change: PrefixChange) {
        self.prefix_changes.get_or_create(&[("level", change.level())]).inc();
    }

    /// A history was to be summed up.
    pub fn compaction(&self, outcome: CompactionOutcome) {
        self.compactions.get_or_create(&[("outcome", outcome.as_str())]).inc();
    }

    /// A message was accepted.
    pub fn run_accepted(&self) {
        self.accepted.inc();
    }

    /// A run came to rest.
    pub fn run_settled(&self, status: RunStatus) {
        self.settled.get_or_create(&[("status", status.as_str())]).inc();
    }

    /// A worker took runs up.
    pub fn runs_claimed(&self, from: ClaimedFrom, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.claimed.get_or_create(&[("how", from.as_str())]).inc_by(count);
    }

    /// A driver dropped its run, because another worker may hold it.
    pub fn lease_lost(&self) {
        self.leases_lost.inc();
    }

    /// The fence refused a step.
    pub fn step_fenced(&self) {
        self.steps_fenced.inc();
    }

    /// A request to the model ended.
    pub fn model_request(&self, outcome: RequestOutcome) {
        self.model_requests.get_or_create(&[("outcome", outcome.as_str())]).inc();
    }

    /// A failed request will be sent again.
    pub fn model_retried(&self) {
        self.model_retries.get_or_create(&[("outcome", "sent")]).inc();
    }

    /// A failed request is not sent again, because too many others are.
    pub fn model_retry_withheld(&self) {
        self.model_retries.get_or_create(&[("outcome", "withheld")]).inc();
    }

    /// Whether the model is asked, from now on.
    pub fn model_circuit(&self, circuit: Circuit) {
        self.model_circuit_open.set(i64::from(circuit != Circuit::Closed));
        *self.model_circuit.lock().unwrap_or_else(PoisonError::into_inner) = Some(circuit);
    }

    /// Whether the model is asked; none in a process that asks no model.
    pub fn circuit(&self) -> Option<Circuit> {
        *self.model_circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt to deliver to a webhook ended.
    pub fn webhook_attempt(&self, outcome: WebhookOutcome) {
        self.webhook_attempts.get_or_create(&[("outcome", outcome.as_str())]).inc();
    }

    /// Counts a run as active until the guard is dropped.
    pub fn active_run(&self) -> Held {
        Held::new(&self.active)
    }

    /// Counts a stream as open until the guard is dropped.
    pub fn open_stream(&self) -> Held {
        Held::new(&self.streams)
    }

    /// All figures as text.
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

/// One more, for as long as it lives.
#[derive(Debug)]
pub struct Held(Gauge);

impl Held {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_there_before_anything_happens_and_count_what_does() {
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
