//! Traces, metrics, logs and health of the service.

mod correlation;
mod info;
mod closed_log;
mod metrics_listener;
mod readiness;
mod request_logs;
mod traces;
