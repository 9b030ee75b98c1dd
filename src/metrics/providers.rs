//! Metrics of each model provider. The names of providers are from the configuration.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::RequestOutcome;
use crate::domain::circuit::Circuit;

/// The metrics of each model provider, absent before its first request, and of changes to fallback
/// models.
#[derive(Debug)]
pub(super) struct ProviderMetrics {
    requests: Family<[(&'static str, String); 2], Counter>,
    circuit_open: Family<[(&'static str, String); 1], Gauge>,
    fallbacks: Counter,
}

impl ProviderMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let (requests, circuit_open) = (Family::default(), Family::default());
        let help = "Model requests, by provider and outcome";
        registry.register("model_provider_requests", help, requests.clone());
        let help = "1 while the circuit breaker of a model of this provider is open, otherwise 0";
        registry.register("model_provider_circuit_open", help, circuit_open.clone());
        let fallbacks = Counter::default();
        let help = "Changes to a fallback model, because a model was unavailable";
        registry.register("model_fallbacks", help, fallbacks.clone());
        Self { requests, circuit_open, fallbacks }
    }

    pub(super) fn request(&self, provider: &str, outcome: RequestOutcome) {
        let outcome = outcome.as_str().to_owned();
        let labels = [("provider", provider.to_owned()), ("outcome", outcome)];
        self.requests.get_or_create(&labels).inc();
    }

    pub(super) fn fallback(&self) {
        self.fallbacks.inc();
    }

    pub(super) fn circuit(&self, provider: &str, circuit: Circuit) {
        let gauge = self.circuit_open.get_or_create(&[("provider", provider.to_owned())]);
        gauge.set(i64::from(circuit != Circuit::Closed));
    }
}
