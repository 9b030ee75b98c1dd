//! Spans that are kept.

use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, Tracer as _};
use opentelemetry::{Array, KeyValue, StringValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use super::export::{context, place};
use super::{Kind, Value};
use crate::domain::trace::Trace;

/// Where spans begin.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// None: nobody wants them.
    pub(super) tracer: Option<SdkTracer>,
}

/// A span that has begun. It ends when it is dropped.
#[derive(Debug)]
pub struct Open(Span);

impl Spans {
    /// Begins a span, which was caused at this place; none where nobody wants spans.
    pub fn begin(
        &self,
        kind: Kind,
        name: impl FnOnce() -> String,
        cause: Option<Trace>,
    ) -> Option<Open> {
        let tracer = self.tracer.as_ref()?;
        let kind = match kind {
            Kind::Server => SpanKind::Server,
            Kind::Client => SpanKind::Client,
            Kind::Internal => SpanKind::Internal,
        };
        let builder = SpanBuilder::from_name(name()).with_kind(kind);
        Some(Open(tracer.build_with_context(builder, &context(cause))))
    }
}

impl Open {
    /// Its place in its trace, for those whom it asks.
    pub fn place(&self) -> Option<Trace> {
        place(self.0.span_context())
    }

    /// Adds an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.set_attribute(KeyValue::new(name, opentelemetry::Value::from(value.into())));
    }

    /// Says that it failed, by a word for the kind of failure.
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
