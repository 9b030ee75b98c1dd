//! The final frame of a stream whose session was deleted.

use serde::Serialize;

use crate::domain::ids::SessionId;

/// The frame that ends a stream. It has no number and no SSE `id`, because after it there is
/// nothing to resume.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type")]
#[schema(as = Farewell)]
pub enum StreamEnd {
    /// The session was deleted.
    #[serde(rename = "session.deleted")]
    SessionDeleted {
        /// The session.
        #[schema(value_type = String)]
        session_id: SessionId,
    },
}

impl StreamEnd {
    /// Encodes the SSE frame.
    pub fn sse(&self) -> String {
        let Self::SessionDeleted { session_id } = self;
        let data = format!(r#"{{"type":"session.deleted","session_id":"{session_id}"}}"#);
        format!("event: session.deleted\ndata: {data}\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_holds_what_the_schema_promises() {
        let end = StreamEnd::SessionDeleted { session_id: SessionId::new() };
        let data = serde_json::to_string(&end).unwrap();
        assert_eq!(end.sse(), format!("event: session.deleted\ndata: {data}\n\n"));
    }
}
