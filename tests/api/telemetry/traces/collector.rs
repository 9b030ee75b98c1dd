//! A collector of traces that keeps the spans it receives.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as Any, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::support::kept_output;

type Spans = Arc<Mutex<Vec<Span>>>;

pub(super) struct Collector {
    pub(super) url: String,
    spans: Spans,
    _task: AbortOnDropHandle<()>,
}

async fn receive(State(spans): State<Spans>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    kept_output::keep_response(&format!("{request:?}"));
    for resource in request.resource_spans {
        let attributes = resource.resource.unwrap().attributes;
        let name = attributes.iter().find(|attribute| attribute.key == "service.name").unwrap();
        assert_eq!(value(name.value.as_ref()), "twostep");
        let new = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.lock().unwrap().extend(new);
    }
}

impl Collector {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let spans = Spans::default();
        let router =
            Router::new().route("/v1/traces", post(receive)).with_state(Arc::clone(&spans));
        let serve = async { axum::serve(listener, router).await.unwrap() };
        Self { url, spans, _task: AbortOnDropHandle::new(TaskTracker::new().spawn(serve)) }
    }

    /// Waits until the trace has this number of spans, and returns them ordered by their start.
    pub(super) async fn trace(&self, id: &str, count: usize) -> Vec<Span> {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let mut spans = self.spans.lock().unwrap().clone();
            spans.retain(|span| hex(&span.trace_id) == id);
            if spans.len() >= count {
                spans.sort_by_key(|span| (span.start_time_unix_nano, span.kind));
                return spans;
            }
            assert!(Instant::now() < deadline, "only {spans:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The comparable parts of spans: name, kind, name of the parent, failure, attributes.
pub(super) fn comparable(spans: &[Span]) -> Vec<Value> {
    let names: HashMap<String, &str> =
        spans.iter().map(|span| (hex(&span.span_id), &*span.name)).collect();
    spans
        .iter()
        .map(|span| {
            let parent = hex(&span.parent_span_id);
            let parent = names.get(&parent).map_or(parent.clone(), |name| (*name).to_owned());
            let has_failed = span.status.as_ref().is_some_and(|status| status.code == 2);
            json!([span.name, span.kind, parent, has_failed, attributes(&span.attributes)])
        })
        .collect()
}

fn attributes(all: &[KeyValue]) -> Value {
    let pair = |pair: &KeyValue| (pair.key.clone(), value(pair.value.as_ref()));
    let mut pairs: Vec<_> = all.iter().map(pair).collect();
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    Value::Object(pairs.into_iter().collect::<Map<_, _>>())
}

fn value(any: Option<&Any>) -> Value {
    match any.unwrap().value.clone().unwrap() {
        AnyValue::StringValue(text) => text.into(),
        AnyValue::IntValue(number) => number.into(),
        AnyValue::ArrayValue(array) => array.values.iter().map(|any| value(Some(any))).collect(),
        other @ (AnyValue::BoolValue(_)
        | AnyValue::DoubleValue(_)
        | AnyValue::KvlistValue(_)
        | AnyValue::BytesValue(_)
        | AnyValue::StringValueStrindex(_)) => {
            panic!("{other:?} is not a value that the service sends")
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}
