//! Code that the model's server runs in a container of the session.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Transcript, sent};
use crate::domain::container::Container;
use crate::domain::message::Role;

/// The members of a block that say whether it is an open call.
#[derive(Debug, Deserialize)]
struct CallTag {
    r#type: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    tool_use_id: Option<String>,
}

impl Transcript {
    /// Sets the container that a stored reply has named.
    pub(in crate::worker) fn set_container(&mut self, container: Container) {
        self.container = Some(container);
    }

    /// The id of the container for the next request. One that has expired is left out, so that the
    /// server makes a new one; but not while code of the last turn is open, because the server
    /// requires its container then, and may have prolonged its life without a report.
    pub(super) fn sent_container(&self) -> Option<&str> {
        let container = self.container.as_ref()?;
        let is_sent =
            !container.is_expired(Timestamp::now()) || !self.open_server_calls().is_empty();
        is_sent.then_some(container.id.as_str())
    }

    /// The JSON of the calls of server tools in the last turn of the model that have no result.
    pub(in crate::worker) fn open_server_calls(&self) -> BTreeSet<String> {
        let turn = self.text.get(self.turn.offset..).unwrap_or_default();
        if !turn.contains("server_tool_use") {
            return BTreeSet::new();
        }
        let turn = format!("[{}]", turn.strip_prefix(',').unwrap_or(turn));
        let messages = sent(&turn);
        let replies = messages.iter().filter(|message| message.role == Role::Assistant);
        let blocks: Vec<(CallTag, &RawValue)> = replies
            .flat_map(|message| {
                serde_json::from_str::<Vec<&RawValue>>(message.content.get()).unwrap_or_default()
            })
            .filter_map(|raw| Some((serde_json::from_str(raw.get()).ok()?, raw)))
            .collect();
        let answered: HashSet<&str> =
            blocks.iter().filter_map(|(tag, _)| tag.tool_use_id.as_deref()).collect();
        let is_open = |tag: &CallTag| {
            let id = tag.id.as_deref();
            tag.r#type == "server_tool_use" && id.is_some_and(|id| !answered.contains(id))
        };
        blocks.iter().filter(|(tag, _)| is_open(tag)).map(|(_, raw)| raw.get().to_owned()).collect()
    }
}
