//! The server: connections, middleware, limits and readiness.

pub(in crate::http) mod browser_guard;
pub(in crate::http) mod caching;
pub(in crate::http) mod cors;
pub(in crate::http) mod deadline;
pub(in crate::http) mod detached;
pub(in crate::http) mod forwarded;
pub(in crate::http) mod query_parameters;
pub(in crate::http) mod rate_limit;
pub(in crate::http) mod readiness;
pub(in crate::http) mod request_id;
pub(in crate::http) mod request_span;
pub(in crate::http) mod serve;
pub(in crate::http) mod stream_permits;
