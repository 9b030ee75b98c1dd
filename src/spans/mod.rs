//! Spans for OpenTelemetry: the operations of a request, their durations and outcomes.
//!
//! Without an exporter, spans cost nothing. They contain names and counts, but never text of users,
//! of the model or of tools. Names and attributes follow the semantic conventions for HTTP and for
//! generative AI.

#[cfg(not(feature = "otel"))]
mod absent;
#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod open;
#[cfg(feature = "otel")]
mod queue;

#[cfg(not(feature = "otel"))]
pub use absent::{BadTraces, Export, OpenSpan, Spans, start};
#[cfg(feature = "otel")]
pub use export::{BadTraces, Export, start};
#[cfg(feature = "otel")]
pub use open::{OpenSpan, Spans};

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An incoming request.
    Server,
    /// An outgoing request.
    Client,
    /// Internal work.
    Internal,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text or an id.
    Text(String),
    /// A count.
    Number(i64),
    /// A list of texts.
    Texts(Vec<String>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}
