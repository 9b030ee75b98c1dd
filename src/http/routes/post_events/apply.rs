//! Applying the events of a request, in whichever protocol they came.

use axum::response::Response;

use super::body::{ParsedEvents, event_pointer};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::trace::Trace;
use crate::http::error::{ApiError, refused_after};
use crate::http::state::Api;
use crate::service::Error;
use crate::service::client_events::{ClientEvents, EventResult, PostEvents};
use crate::service::deadline::in_time;
use crate::service::messages::{PostMessage, PostedRun};
use crate::service::session_settings::check_mode;

/// The events of a request, and where they come from.
#[derive(Debug)]
pub(in crate::http) struct EventBatch {
    pub(in crate::http) tenant: TenantId,
    pub(in crate::http) session_id: SessionId,
    pub(in crate::http) trace: Trace,
    pub(in crate::http) idempotency_key: Option<String>,
    pub(in crate::http) events: ParsedEvents,
}

/// The results of the events.
#[derive(Debug)]
pub(in crate::http) struct AppliedBatch {
    /// Of the events before the message; `None` if a repeated request has applied them before.
    pub(in crate::http) steps: Option<Vec<EventResult>>,
    pub(in crate::http) posted: Option<PostedRun>,
}

impl EventBatch {
    /// Applies the events before the message, all or none of them, and then the message. A refused
    /// message does not undo the events before it: the response in `Err` says how many were applied.
    pub(in crate::http) async fn apply(
        self,
        api: &Api,
    ) -> Result<Result<AppliedBatch, Response>, ApiError> {
        if api.draining.is_cancelled() {
            return Err(Error::Draining.into());
        }
        let Self { tenant, session_id, trace, idempotency_key, events } = self;
        let ParsedEvents { kinds, steps, message, canonical_steps } = events;
        let last_pointer = event_pointer(kinds.len() - 1);
        if let Some(message) = &message {
            let checked = check_mode(&api.service, message.permission_mode);
            checked.map_err(|error| error.under(&last_pointer))?;
        }
        let message = message.map(|message| PostMessage {
            tenant,
            session_id,
            message,
            idempotency_key,
            // The events before the message change the version of the session.
            versions: None,
            trace,
            other_events: canonical_steps,
        });
        let request = PostEvents { tenant, session_id, steps, message, last_pointer };
        let events = ClientEvents::new(&api.service, &request)?;
        let steps = Box::pin(in_time(events.apply_steps())).await?;
        let done = steps.as_ref().map_or(0, Vec::len);
        Ok(match Box::pin(in_time(events.post_message())).await {
            Ok(posted) => Ok(AppliedBatch { steps, posted }),
            Err(error) => {
                let error = ApiError::from(error.under(&request.last_pointer));
                Err(refused_after(error, done))
            }
        })
    }
}
