//! Streams of events: filters, encoders, readers and probes.

pub(in crate::http) mod encoder;
pub(in crate::http) mod event_types;
pub(in crate::http) mod format;
pub(in crate::http) mod probes;
pub(in crate::http) mod request;
pub(in crate::http) mod response;
pub(in crate::http) mod session_list;
mod sse;
