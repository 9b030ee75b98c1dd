//! What there is of spans in a program without the feature `otel`: nothing.

use std::convert::Infallible;

use prometheus_client::metrics::counter::Counter;
use reqwest::Url;
use tokio_util::sync::CancellationToken;

use super::{Kind, Value};
use crate::domain::trace::Trace;

/// Where no spans begin.
#[derive(Debug, Clone, Default)]
pub struct Spans(());

/// A span, of which there is none.
#[derive(Debug)]
pub struct Open(Infallible);

/// What would send spans.
#[derive(Debug)]
pub struct Export(Infallible);

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("this program was built without the feature otel, and sends no traces")]
pub struct BadTraces;

impl Spans {
    /// None.
    pub fn begin(&self, _: Kind, _: impl FnOnce() -> String, _: Option<Trace>) -> Option<Open> {
        None
    }
}

impl Open {
    /// Cannot be called.
    pub fn place(&self) -> Option<Trace> {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn set(&mut self, _: &'static str, _: impl Into<Value>) {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn fail(&mut self, _: &str) {
        match self.0 {}
    }
}

impl Export {
    /// Cannot be called.
    #[expect(clippy::unused_async, reason = "the same as with the feature")]
    pub async fn run(self, _: CancellationToken) {
        match self.0 {}
    }
}

/// Refuses.
pub fn start(_: &Url, _: Counter) -> Result<(Spans, Export), BadTraces> {
    Err(BadTraces)
}
