//! The stream of a run, in the encoding of an adapter.

use std::sync::Arc;

use axum::body::Body;

use crate::bus::Subscription;
use crate::domain::ids::TenantId;
use crate::http::run_response::FollowedRun;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::encoder::StreamEncoder;
use crate::http::stream::event_types::EventTypes;
use crate::http::stream::request::{StreamPhase, StreamRequest};
use crate::http::stream::response::encoded;

/// Streams a run until it has settled or waits for the client. The subscription must be older than the
/// request's effect.
pub(in crate::http) fn stream_run(
    api: &Arc<Api>,
    tenant: TenantId,
    followed: &FollowedRun,
    (subscription, permit): (Subscription, StreamPermit),
    encoder: impl StreamEncoder,
) -> Body {
    let request = StreamRequest {
        tenant,
        session_id: followed.run.session_id,
        run_id: Some(followed.run.id),
        after: followed.after,
        deltas: true,
        types: EventTypes::default(),
        first_phase: if followed.is_live { StreamPhase::Live } else { StreamPhase::Backlog },
        ends_if_waiting: true,
    };
    encoded(api, request, subscription, permit, encoder)
}
