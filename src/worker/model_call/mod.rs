//! Requests to the model.

pub(in crate::worker) mod budget;
pub(in crate::worker) mod model_try;
pub(in crate::worker) mod previews;
pub(in crate::worker) mod refused_content;
pub(in crate::worker) mod reply_events;
pub(in crate::worker) mod request_record;
pub(in crate::worker) mod retry;
pub(in crate::worker) mod send;
pub(in crate::worker) mod truncated_call;
