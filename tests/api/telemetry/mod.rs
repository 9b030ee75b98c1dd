//! Traces, metrics, logs and health of the service.

mod closed_log;
mod correlation;
mod info;
mod metrics_access;
mod metrics_listener;
mod readiness;
mod request_logs;
mod traces;
