//! What webhooks get. It is put together where it is stored, some of it in the database; the types
//! here only describe it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::webhook::WebhookEvent;

/// What a webhook gets.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum WebhookDelivery {
    /// It is told of a run.
    Run(RunDelivery),
    /// It is tried.
    Test(TrialDelivery),
}

/// A webhook is told of a run.
#[derive(Serialize, ToSchema)]
pub(super) struct RunDelivery {
    /// Of what.
    r#type: WebhookEvent,
    /// When it happened.
    #[schema(format = DateTime)]
    timestamp: String,
    /// What happened, and where.
    data: RunDeliveryData,
}

/// What happened that a webhook is told of, and where.
#[derive(Serialize, ToSchema)]
pub(super) struct RunDeliveryData {
    /// The session.
    session_id: String,
    /// The run.
    run_id: String,
    /// The number of the event in the session.
    seq: i64,
    /// What the event says.
    event: ToldEvent,
}

/// What an event of a session says: a `user.tool_confirmation` for `approval.decided`, else a
/// `session.status_idle`. It is without the members that all events have.
#[derive(Serialize, ToSchema)]
pub(super) struct ToldEvent {
    /// The event's type.
    r#type: String,
    #[serde(flatten)]
    members: BTreeMap<String, Value>,
}

/// A webhook is tried.
#[derive(Serialize, ToSchema)]
pub(super) struct TrialDelivery {
    /// `webhook.test`.
    r#type: String,
    /// When it was asked for.
    #[schema(format = DateTime)]
    timestamp: String,
    /// Nothing.
    #[schema(value_type = Object)]
    data: BTreeMap<String, Value>,
}
