//! Spans for OpenTelemetry: what was done for a request, by whom, for how long, and how it ended.
//!
//! Where nobody wants them they cost nothing. They name things and count them; what people, the
//! model and tools have said is in none of them. Names and attributes are those of the semantic
//! conventions for HTTP and for generative AI.

#[cfg(not(feature = "otel"))]
mod absent;
#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod open;
#[cfg(feature = "otel")]
mod queue;

#[cfg(not(feature = "otel"))]
pub use absent::{BadTraces, Export, Open, Spans, start};
#[cfg(feature = "otel")]
pub use export::{BadTraces, Export, start};
#[cfg(feature = "otel")]
pub use open::{Open, Spans};

/// What a span stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody asked us.
    Server,
    /// We ask somebody.
    Client,
    /// We work.
    Internal,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A word or an id.
    Text(String),
    /// A count.
    Number(i64),
    /// Words.
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
