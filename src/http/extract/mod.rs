//! Extractors: the parts of a request as checked values.

pub(in crate::http) mod accept;
pub(in crate::http) mod body;
pub(in crate::http) mod conditions;
pub(in crate::http) mod headers;
pub(in crate::http) mod idempotency;
pub(in crate::http) mod json_body;
pub(in crate::http) mod large_body;
pub(in crate::http) mod path;
pub(in crate::http) mod query;
pub(in crate::http) mod upload;
