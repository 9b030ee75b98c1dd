//! Streams of events: filters, formats, readers and probes.

pub(in crate::http) mod event_types;
pub(in crate::http) mod format;
pub(in crate::http) mod probes;
pub(in crate::http) mod request;
pub(in crate::http) mod sse;
