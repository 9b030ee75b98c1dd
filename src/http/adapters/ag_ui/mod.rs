//! The AG-UI protocol, version 1.0.
//!
//! `body` parses a request, `mapper` turns the events of the run into events of the protocol, `encoder`
//! writes frames, and `messages` turns the history into messages.

mod body;
mod connect;
mod encoder;
mod event;
mod mapper;
mod messages;
mod run;

pub(in crate::http) use connect::{__path_connect_ag_ui_thread, connect_ag_ui_thread};
pub(in crate::http) use run::{__path_run_ag_ui_agent, run_ag_ui_agent};
