//! The parameters of one request to the model.

use crate::domain::ids::EventId;
use crate::domain::tool::ToolChoice;
use crate::model::Head;

/// The ids of the events that a reply will become.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct ReplyIds {
    pub(in crate::worker) message: EventId,
    pub(in crate::worker) thinking: EventId,
}

impl ReplyIds {
    pub(in crate::worker) fn new() -> Self {
        Self { message: EventId::new(), thinking: EventId::new() }
    }
}

/// The parameters of one request of the loop.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct RequestParameters<'a> {
    pub(in crate::worker) head: &'a Head,
    /// The position of the model whose head it is among those of the run.
    pub(in crate::worker) model: usize,
    pub(in crate::worker) choice: &'a ToolChoice,
    /// The output budget, if it is not that of the session.
    pub(in crate::worker) max_tokens: Option<u32>,
    pub(in crate::worker) ids: ReplyIds,
}
