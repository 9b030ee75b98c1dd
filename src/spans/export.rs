//! Export of spans to a collector by OTLP over HTTP.

use std::time::Duration;

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter as _};
use prometheus_client::metrics::counter::Counter;
use reqwest::Url;
use reqwest::redirect::Policy;
use tokio::sync::mpsc::channel;
use tokio_util::sync::CancellationToken;

use super::Spans;
use super::queue::{Batches, QUEUE, Queue};
use crate::domain::trace::{Trace, TraceParts};

/// Timeout of one batch.
const TIMEOUT: Duration = Duration::from_secs(3);

/// An error at the start of the exporter.
#[derive(Debug, thiserror::Error)]
pub enum BadTraces {
    /// The exporter's settings are invalid.
    #[error("the trace exporter did not start: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// TLS or the DNS resolver did not start.
    #[error("the HTTP client of the trace exporter did not start: {0}")]
    Http(#[from] reqwest::Error),
}

/// The background task that exports spans.
#[derive(Debug)]
pub struct Export(Batches);

impl Export {
    /// Exports spans until `stop` is cancelled, then exports the remaining ones.
    pub async fn run(self, stop: CancellationToken) {
        self.0.send(stop).await;
    }
}

/// Creates an exporter to the collector at this address, which sends these headers. The library reads
/// `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` and
/// `OTEL_TRACES_SAMPLER`. `dropped` counts spans that were not exported.
pub fn start(
    endpoint: &Url,
    headers: impl IntoIterator<Item = (String, String)>,
    dropped: Counter,
) -> Result<(Spans, Export), BadTraces> {
    // A redirect could send the headers to another server.
    let http = reqwest::Client::builder().timeout(TIMEOUT).redirect(Policy::none()).build()?;
    let url = format!("{}/v1/traces", endpoint.as_str().trim_end_matches('/'));
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(http)
        .with_endpoint(url)
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(TIMEOUT)
        .with_headers(headers.into_iter().collect())
        .build()?;
    let resource = resource();
    exporter.set_resource(&resource);
    let (sender, receiver) = channel(QUEUE);
    let provider = SdkTracerProvider::builder()
        .with_resource(resource)
        .with_span_processor(Queue::new(sender, dropped.clone()))
        .build();
    let spans = Spans { tracer: Some(provider.tracer("twostep")) };
    Ok((spans, Export(Batches::new(exporter, receiver, dropped))))
}

/// Returns the resource attributes from the environment, with the service name `twostep` by
/// default.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version).build();
    let name = resource.get_ref(&"service.name".into()).map(ToString::to_string);
    if name.is_some_and(|name| !name.starts_with("unknown_service")) {
        return resource;
    }
    let attributes = resource.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty().with_attributes(attributes).with_service_name("twostep").build()
}

/// Converts a trace to the library's context.
pub(super) fn context(cause: Option<Trace>) -> Context {
    let Some(cause) = cause else { return Context::new() };
    let TraceParts { trace_id, span_id, is_sampled } = cause.parts();
    let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (id, span) = (TraceId::from(trace_id), SpanId::from(span_id));
    let cause = SpanContext::new(id, span, flags, true, TraceState::default());
    Context::new().with_remote_span_context(cause)
}

/// Converts the library's span context to a trace.
pub(super) fn place(span: &SpanContext) -> Option<Trace> {
    let id = u128::from_be_bytes(span.trace_id().to_bytes());
    let place = u64::from_be_bytes(span.span_id().to_bytes());
    Trace::at(id, place, span.is_sampled())
}
