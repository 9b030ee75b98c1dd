//! The span API of a build without the feature `otel`: no spans.

use std::convert::Infallible;

use prometheus_client::metrics::counter::Counter;
use reqwest::Url;
use tokio_util::sync::CancellationToken;

use super::{Kind, Value};
use crate::domain::trace::Trace;

/// Creates no spans.
#[derive(Debug, Clone, Default)]
pub struct Spans(());

/// An open span; this type has no values.
#[derive(Debug)]
pub struct OpenSpan(Infallible);

/// The exporter of spans; this type has no values.
#[derive(Debug)]
pub struct Export(Infallible);

/// The error of every attempt to export spans.
#[derive(Debug, thiserror::Error)]
#[error("this binary was built without the feature otel and cannot export traces")]
pub struct BadTraces;

impl Spans {
    /// Returns none.
    pub fn begin(&self, _: Kind, _: impl FnOnce() -> String, _: Option<Trace>) -> Option<OpenSpan> {
        None
    }
}

impl OpenSpan {
    /// Unreachable, because there are no spans.
    pub fn place(&self) -> Option<Trace> {
        match self.0 {}
    }

    /// Unreachable, because there are no spans.
    pub fn set(&mut self, _: &'static str, _: impl Into<Value>) {
        match self.0 {}
    }

    /// Unreachable, because there are no spans.
    pub fn fail(&mut self, _: &str) {
        match self.0 {}
    }
}

impl Export {
    /// Unreachable, because there is no exporter.
    #[expect(clippy::unused_async, reason = "the same as with the feature")]
    pub async fn run(self, _: CancellationToken) {
        match self.0 {}
    }
}

/// Returns an error.
pub fn start(
    _: &Url,
    _: impl IntoIterator<Item = (String, String)>,
    _: Counter,
) -> Result<(Spans, Export), BadTraces> {
    Err(BadTraces)
}
