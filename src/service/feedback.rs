//! Feedback of users on replies of the model.

use serde::Deserialize;
use sqlx::PgConnection;

use super::deadline::in_time;
use super::error::Error;
use super::state::Service;
use super::transaction::in_transaction;
use crate::domain::event::{EventBody, Frame, NewEvent};
use crate::domain::feedback::{Feedback, Rating};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::string_enum::string_enum;
use crate::store::events::append;
use crate::store::feedback::{has_reply, list, lock_session, put, remove};
use crate::store::quotas::ReservedBytes;

/// The largest text of a feedback, in characters.
const MAX_TEXT: usize = 4000;

/// Feedback on a reply.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutFeedback {
    /// `up` or `down`.
    #[serde(deserialize_with = "string_enum")]
    #[schema(value_type = Rating)]
    rating: Rating,
    /// The text of the user, at most 4,000 characters. A blank text is left out.
    #[schema(max_length = 4000)]
    text: Option<String>,
}

/// The reply that a feedback is about.
#[derive(Debug)]
pub(crate) struct RatedReply<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) session_id: SessionId,
    pub(crate) message_id: &'a str,
}

/// The result of a change, with its events.
struct Changed<T> {
    value: T,
    frames: Vec<Frame>,
    reserved: Option<ReservedBytes>,
}

/// Stores the feedback on a reply. The same feedback again has no effect.
pub(crate) async fn put_feedback(
    service: &Service,
    reply: RatedReply<'_>,
    feedback: PutFeedback,
) -> Result<Feedback, Error> {
    let PutFeedback { rating, text } = feedback;
    let text = text.filter(|text| !text.trim().is_empty());
    let long = |text: &String| text.chars().count() > MAX_TEXT;
    if text.as_ref().is_some_and(long) {
        return Err(Error::field("/text", "is longer than 4000 characters"));
    }
    if text.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(Error::field("/text", "has a NUL character"));
    }
    let event = EventBody::UserFeedback {
        message_id: reply.message_id.to_owned(),
        rating: Some(rating),
        text: text.clone(),
    };
    change(service, &reply, &event, async |conn: &mut PgConnection| {
        let (session_id, id) = (reply.session_id, reply.message_id.to_owned());
        let mut present = list(conn, session_id, &[id]).await?;
        if let Some(present) = present.remove(reply.message_id)
            && (present.rating, present.text.as_ref()) == (rating, text.as_ref())
        {
            return Ok((present, false));
        }
        let new = (rating, text.as_deref());
        Ok((put(conn, reply.tenant, session_id, reply.message_id, new).await?, true))
    })
    .await
}

/// Removes the feedback on a reply, if there is any.
pub(crate) async fn delete_feedback(service: &Service, reply: RatedReply<'_>) -> Result<(), Error> {
    let message_id = reply.message_id.to_owned();
    let event = EventBody::UserFeedback { message_id, rating: None, text: None };
    change(service, &reply, &event, async |conn: &mut PgConnection| {
        Ok(((), remove(conn, reply.session_id, reply.message_id).await?))
    })
    .await
}

/// Changes the feedback on a reply. `work` returns true if something has changed, which the event
/// reports.
async fn change<T>(
    service: &Service,
    reply: &RatedReply<'_>,
    event: &EventBody,
    work: impl AsyncFnOnce(&mut PgConnection) -> Result<(T, bool), Error>,
) -> Result<T, Error> {
    let RatedReply { tenant, session_id, message_id } = *reply;
    let changed = async {
        let quota = service.quotas.stored_bytes(tenant).await?;
        let store = async |conn: &mut PgConnection| {
            if !lock_session(conn, tenant, session_id).await? {
                return Err(Error::SessionNotFound(session_id.to_string()));
            }
            // A text with a NUL cannot be compared.
            if message_id.contains('\0') || !has_reply(conn, session_id, message_id).await? {
                return Err(Error::MessageNotFound(message_id.to_owned()));
            }
            let (value, has_changed) = work(conn).await?;
            if !has_changed {
                return Ok(Changed { value, frames: Vec::new(), reserved: None });
            }
            let event = NewEvent::new(event);
            let reserved = quota.reserve(event.body.len()).map_err(Error::QuotaExceeded)?;
            let frames = append(conn, session_id, None, &[event]).await?;
            Ok(Changed { value, frames, reserved: Some(reserved) })
        };
        in_transaction(service, tenant, store).await
    };
    let Changed { value, frames, reserved } = in_time(changed).await?;
    if let Some(reserved) = reserved {
        reserved.keep();
    }
    service.bus.publish(session_id, frames);
    Ok(value)
}
