//! Events: numbered facts of a session, and previews of events that are not stored yet.

mod body;
mod frame;
mod kind;
mod new_event;
mod preview;
mod stream_end;

pub use body::EventBody;
pub use frame::{Frame, Stamp};
pub use kind::{STATUS_IDLE, THREAD_EVENT};
pub use new_event::NewEvent;
pub use preview::{Preview, PreviewDelta, PreviewKind, PreviewText, PreviewedEvent};
pub use stream_end::StreamEnd;
