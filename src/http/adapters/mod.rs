//! Adapters: other protocols for the same use cases.
//!
//! An adapter has one direction of data: it parses a request, calls a use case of `service`, follows
//! the run, and maps its events to frames of the protocol. It has no SQL and no transactions.

pub(in crate::http) mod ag_ui;
pub(in crate::http) mod ai_sdk;
pub(in crate::http) mod call_answers;
pub(in crate::http) mod disconnect;
pub(in crate::http) mod event;
pub(in crate::http) mod fork_turn;
pub(in crate::http) mod managed_agents;
pub(in crate::http) mod media;
pub(in crate::http) mod openai;
pub(in crate::http) mod run_stream;
pub(in crate::http) mod sent_text;
pub(in crate::http) mod turn;
