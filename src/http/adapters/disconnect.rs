//! Clients of some protocols stop an answer by closing the connection.

use std::sync::Arc;

use axum::body::Body;
use futures::{StreamExt as _, stream};
use serde::Deserialize;

use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::http::state::Api;
use crate::service::cancel::cancel_run;

/// The effect of a closed connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum OnDisconnect {
    /// Cancels the run.
    #[default]
    Cancel,
    /// The run goes on.
    Continue,
}

/// Cancels a run when its response is dropped before its end.
#[derive(Debug)]
pub(in crate::http) struct DisconnectGuard {
    pub(in crate::http) api: Arc<Api>,
    pub(in crate::http) tenant: TenantId,
    pub(in crate::http) session_id: SessionId,
    pub(in crate::http) run_id: RunId,
    /// True if the run goes on without the client.
    pub(in crate::http) is_done: bool,
}

impl DisconnectGuard {
    /// The same body, which cancels the run when it is dropped before its end. A stream that the service
    /// aborts cancels nothing.
    pub(in crate::http) fn guard(self, body: Body) -> Body {
        let state = (body.into_data_stream(), self);
        Body::from_stream(stream::unfold(state, async |(mut data, mut guard)| {
            let item = data.next().await;
            if !matches!(item, Some(Ok(_))) {
                guard.is_done = true;
            }
            Some((item?, (data, guard)))
        }))
    }
}

impl Drop for DisconnectGuard {
    fn drop(&mut self) {
        if self.is_done || self.api.draining.is_cancelled() {
            return;
        }
        let Self { tenant, session_id, run_id, .. } = *self;
        let api = Arc::clone(&self.api);
        self.api.service.tasks.spawn(async move {
            if let Err(error) = cancel_run(&api.service, tenant, session_id, run_id).await {
                tracing::warn!(run.id = %run_id, ?error, "the run of a closed connection was not cancelled");
            }
        });
    }
}
