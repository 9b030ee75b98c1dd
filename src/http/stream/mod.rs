//! Streams of events.

pub(in crate::http) mod event_types;
pub(in crate::http) mod form;
pub(in crate::http) mod probes;
pub(in crate::http) mod sse;
