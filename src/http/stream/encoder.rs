//! The encoding of a stream, chosen by the protocol of its route.

use bytes::Bytes;

use crate::bus::PreviewFrame;
use crate::domain::event::{Frame, StreamEnd};
use crate::domain::ids::SessionId;
use crate::http::stream::format::StreamFormat;

/// Turns the events and previews of a stream into bytes. The methods may return no bytes.
pub(in crate::http) trait StreamEncoder: Send + Sync + 'static {
    /// The first bytes, which are sent at once. `continues` is false for a stream without events.
    fn first(&mut self, continues: bool) -> Bytes;

    /// A stored event. Events come once, in the order of their numbers.
    fn event(&mut self, frame: &Frame) -> Bytes;

    /// A preview. A preview that began before the reader came, or that is repeated after a gap, is
    /// sent again from its beginning.
    fn preview(&mut self, preview: &PreviewFrame) -> Bytes;

    /// The end of a stream whose session was deleted.
    fn deleted(&mut self, session_id: SessionId) -> Bytes;

    /// Returns true if the stream ends here, before the run does.
    fn is_complete(&self) -> bool {
        false
    }

    /// The last bytes of a complete stream. An aborted stream does not get them.
    fn end(&mut self) -> Bytes {
        Bytes::new()
    }

    /// The bytes that keep a silent connection open.
    fn keep_alive(&self) -> Bytes;

    /// The last bytes before the service aborts the stream to stop.
    fn last(&self) -> Bytes;
}

/// The service's own protocol.
impl StreamEncoder for StreamFormat {
    fn first(&mut self, continues: bool) -> Bytes {
        self.first_bytes(continues)
    }

    fn event(&mut self, frame: &Frame) -> Bytes {
        self.frame(frame.sse())
    }

    fn preview(&mut self, preview: &PreviewFrame) -> Bytes {
        self.frame(preview.sse.clone())
    }

    fn deleted(&mut self, session_id: SessionId) -> Bytes {
        self.frame(StreamEnd::SessionDeleted { session_id }.sse().into())
    }

    fn keep_alive(&self) -> Bytes {
        self.keep_alive_bytes()
    }

    fn last(&self) -> Bytes {
        self.last_bytes()
    }
}
