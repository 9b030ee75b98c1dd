//! The export queue of spans. Ending a span never blocks: without room, it is dropped and counted.

use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter as _, SpanProcessor};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Capacity of the queue.
pub(super) const QUEUE: usize = 4096;
/// Maximum number of spans of one request.
const BATCH: usize = 512;
/// Time for which spans are collected into a batch.
const GATHER: Duration = Duration::from_millis(500);
/// Minimum interval between warnings about a failing collector.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// Receives ended spans.
#[derive(Debug)]
pub(super) struct Queue {
    sender: Sender<SpanData>,
    dropped: Counter,
}

impl Queue {
    pub(super) const fn new(sender: Sender<SpanData>, dropped: Counter) -> Self {
        Self { sender, dropped }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            self.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Exports spans in batches.
#[derive(Debug)]
pub(super) struct Batches {
    exporter: SpanExporter,
    receiver: Receiver<SpanData>,
    dropped: Counter,
    warned_at: Option<Instant>,
}

impl Batches {
    pub(super) const fn new(
        exporter: SpanExporter,
        receiver: Receiver<SpanData>,
        dropped: Counter,
    ) -> Self {
        Self { exporter, receiver, dropped, warned_at: None }
    }

    pub(super) async fn send(mut self, stop: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let received = tokio::select! {
                received = self.receiver.recv_many(&mut batch, BATCH) => received,
                () = stop.cancelled(), if !self.receiver.is_closed() => {
                    // The remaining spans of the queue are still received.
                    self.receiver.close();
                    continue;
                }
            };
            if received == 0 {
                return;
            }
            if stop.run_until_cancelled(sleep(GATHER)).await.is_some() {
                while batch.len() < BATCH
                    && let Ok(span) = self.receiver.try_recv()
                {
                    batch.push(span);
                }
            }
            self.export(std::mem::take(&mut batch)).await;
        }
    }

    async fn export(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        let Err(error) = self.exporter.export(batch).await else { return };
        self.dropped.inc_by(u64::try_from(spans).unwrap_or(u64::MAX));
        if self.warned_at.is_none_or(|when| when.elapsed() >= WARN_INTERVAL) {
            self.warned_at = Some(Instant::now());
            tracing::warn!(%error, spans, "trace collector did not accept spans");
        }
    }
}
