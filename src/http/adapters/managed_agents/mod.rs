//! The protocol of Claude Managed Agents, as the SDKs of Anthropic send it (`beta.agents`,
//! `beta.environments` and `beta.sessions`).
//!
//! The events of the service have the names of this protocol, so `event` changes only members. `tools`
//! translates toolsets, `send` applies the events of a client, and `stream` writes the frames of the
//! stream. `http::error` renders errors in the envelope of the protocol.

mod agent;
mod agent_body;
mod agents;
mod environment;
mod environments;
mod event;
mod events;
mod files;
mod paging;
mod query;
mod send;
mod sent_events;
mod session;
mod session_body;
mod session_list;
mod sessions;
mod stop_reason;
mod stream;
mod tools;
mod unsupported;

pub(in crate::http) use agents::*;
pub(in crate::http) use environments::*;
pub(in crate::http) use events::*;
pub(in crate::http) use files::*;
pub(in crate::http) use send::*;
pub(in crate::http) use session_list::*;
pub(in crate::http) use sessions::*;
pub(in crate::http) use stream::*;
