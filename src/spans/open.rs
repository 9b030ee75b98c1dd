//! Spans that are exported.

use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, Tracer as _};
use opentelemetry::{Array, KeyValue, StringValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use super::export::{context, place};
use super::{Kind, Value};
use crate::domain::trace::Trace;

/// Creates spans.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// None if no exporter is configured.
    pub(super) tracer: Option<SdkTracer>,
}

/// An open span. It ends when it is dropped.
#[derive(Debug)]
pub struct OpenSpan(Span);

impl Spans {
    /// Starts a span, optionally as a child of `cause`; none if no exporter is configured.
    pub fn begin(
        &self,
        kind: Kind,
        name: impl FnOnce() -> String,
        cause: Option<Trace>,
    ) -> Option<OpenSpan> {
        let tracer = self.tracer.as_ref()?;
        let kind = match kind {
            Kind::Server => SpanKind::Server,
            Kind::Client => SpanKind::Client,
            Kind::Internal => SpanKind::Internal,
        };
        let builder = SpanBuilder::from_name(name()).with_kind(kind);
        Some(OpenSpan(tracer.build_with_context(builder, &context(cause))))
    }
}

impl OpenSpan {
    /// Returns the trace context, for requests to other services.
    pub fn place(&self) -> Option<Trace> {
        place(self.0.span_context())
    }

    /// Adds an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.set_attribute(KeyValue::new(name, opentelemetry::Value::from(value.into())));
    }

    /// Marks the span as failed, with the kind of the failure.
    pub fn fail(&mut self, kind: &str) {
        self.set("error.type", kind);
        self.0.set_status(Status::error(""));
    }
}

impl From<Value> for opentelemetry::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Text(text) => text.into(),
            Value::Number(number) => number.into(),
            Value::Texts(texts) => {
                let texts = texts.into_iter().map(StringValue::from).collect();
                Self::Array(Array::String(texts))
            }
        }
    }
}
