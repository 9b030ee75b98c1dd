//! The events that a request has stored, which the response returns with their ids.

use std::ops::RangeInclusive;

use serde_json::value::RawValue;

use super::agent::raw;
use super::event::{Members, read, translate};
use crate::domain::event::Frame;
use crate::domain::ids::{EventId, SessionId, TenantId};
use crate::domain::rfc3339;
use crate::http::error::ApiError;
use crate::service::Service;
use crate::service::client_events::EventResult;
use crate::service::events::list_events;
use crate::service::messages::PostedRun;
use crate::service::paging::PageRequest;

/// The number of events among which the stored ones are searched: more than those of one request.
const SEARCHED: i64 = 256;

/// The events of the session of a request.
pub(super) struct SentEvents<'a> {
    pub(super) service: &'a Service,
    pub(super) tenant: TenantId,
    pub(super) session_id: SessionId,
}

impl SentEvents<'_> {
    /// The events of a request as they are stored. One without a stored event, such as an interrupt while
    /// nothing runs, is returned as it was sent, with an id.
    pub(super) async fn list(
        &self,
        events: Vec<Members>,
        applied: Vec<EventResult>,
        posted: Option<PostedRun>,
    ) -> Result<Vec<Members>, ApiError> {
        let types =
            ["user.message", "user.interrupt", "user.tool_confirmation", "user.custom_tool_result"];
        let newest =
            PageRequest { limit: SEARCHED, from: None, is_before: false, is_ascending: false };
        let (service, tenant) = (self.service, self.tenant);
        let page =
            list_events(service, tenant, self.session_id, Some(types.to_vec()), newest).await?;
        let message_id = posted.map(|posted| posted.run.message_id);
        let mut results = applied.into_iter();
        let mut sent = Vec::new();
        for event in events {
            let kind: String = read(&event, "type").unwrap_or_default();
            let stored = match kind.as_str() {
                "user.message" => {
                    page.items.iter().find(|frame| Some(&frame.id) == message_id.as_ref())
                }
                "user.interrupt" => {
                    let span = results.next().and_then(|result| result.events);
                    let span = span.map(|span| span.first..=span.last);
                    page.items.iter().find(|frame| is_interrupt(frame, span.as_ref()))
                }
                _ => {
                    results.next();
                    page.items.iter().find(|frame| frame.kind == kind && answers(frame, &event))
                }
            };
            let stored = stored.and_then(translate).map(|event| event.members);
            sent.push(stored.unwrap_or_else(|| unstored(event, &kind, message_id.as_deref())));
        }
        Ok(sent)
    }
}

fn is_interrupt(frame: &Frame, span: Option<&RangeInclusive<i64>>) -> bool {
    frame.kind == "user.interrupt" && span.is_some_and(|span| span.contains(&frame.seq))
}

/// Reports whether a stored answer is about the same call as this event.
fn answers(frame: &Frame, event: &Members) -> bool {
    let Some(stored) = translate(frame) else { return false };
    ["tool_use_id", "custom_tool_use_id"].iter().any(|name| {
        let [call, own] = [&stored.members, event].map(|members| read::<String>(members, name));
        call.is_some() && call == own
    })
}

/// An event that is not stored: a queued message, or an interrupt while nothing runs, which needs no
/// processing.
fn unstored(mut event: Members, kind: &str, message_id: Option<&str>) -> Members {
    let id = message_id.filter(|_| kind == "user.message").map(str::to_owned);
    event.insert("id".to_owned(), raw(&id.unwrap_or_else(|| EventId::new().to_string())));
    let processed_at: Box<RawValue> = if kind == "user.interrupt" {
        raw(&rfc3339::text(jiff::Timestamp::now()))
    } else {
        RawValue::NULL.to_owned()
    };
    event.insert("processed_at".to_owned(), processed_at);
    event
}
