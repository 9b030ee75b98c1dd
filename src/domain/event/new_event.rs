//! Events that have no sequence number yet.

use super::EventBody;
use crate::domain::ids::EventId;
use crate::domain::storable::{storable_json_of, without_nul};

/// An event that has no sequence number yet.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The id; previews of the event carry it too.
    pub id: String,
    /// The type.
    pub kind: &'static str,
    /// The body as JSON; its first member is the type.
    pub body: String,
}

impl NewEvent {
    /// Creates an event with a new id.
    pub fn new(body: &EventBody) -> Self {
        Self::with_id(EventId::new().to_string(), body)
    }

    /// Creates an event that carries the id of its subject.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "strings, numbers and raw JSON always serialize"
    )]
    pub fn with_id(id: String, body: &EventBody) -> Self {
        // Here, so that live readers receive the same bytes as readers of the database.
        let json = storable_json_of(body).expect("an event body serializes");
        // Raw JSON may contain line breaks between its tokens, and an SSE frame is one line of
        // data.
        Self { id: without_nul(id), kind: body.kind(), body: json.replace(['\n', '\r'], " ") }
    }
}
