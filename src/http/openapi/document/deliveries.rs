//! The schemas of webhook deliveries. The store builds deliveries, partly in SQL; these types only
//! describe them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::webhook::WebhookEvent;

/// The body of a webhook delivery.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum WebhookDelivery {
    /// A delivery for a run.
    Run(RunDelivery),
    /// A test delivery.
    Test(TestDelivery),
}

/// A delivery for a run.
#[derive(Serialize, ToSchema)]
pub(super) struct RunDelivery {
    /// The type of the delivery.
    r#type: WebhookEvent,
    /// The time of the event.
    #[schema(format = DateTime)]
    timestamp: String,
    /// The event and the run that it belongs to.
    data: RunDeliveryData,
}

/// The event of a delivery, and the run that it belongs to.
#[derive(Serialize, ToSchema)]
pub(super) struct RunDeliveryData {
    /// The id of the session.
    session_id: String,
    /// The id of the run; of the reply for `message.feedback`.
    run_id: String,
    /// The sequence number of the event in the session.
    seq: i64,
    /// The event.
    event: RunEvent,
}

/// An event of a session without the members that all events share: a `user.tool_confirmation` for
/// `approval.decided`, a `user.feedback` for `message.feedback`, otherwise a `session.status_idle`.
#[derive(Serialize, ToSchema)]
#[schema(as = ToldEvent)]
pub(super) struct RunEvent {
    /// The type of the event.
    r#type: String,
    #[serde(flatten)]
    members: BTreeMap<String, Value>,
}

/// A test delivery.
#[derive(Serialize, ToSchema)]
#[schema(as = TrialDelivery)]
pub(super) struct TestDelivery {
    /// `webhook.test`.
    r#type: String,
    /// The time at which the test was requested.
    #[schema(format = DateTime)]
    timestamp: String,
    /// An empty object.
    #[schema(value_type = Object)]
    data: BTreeMap<String, Value>,
}
