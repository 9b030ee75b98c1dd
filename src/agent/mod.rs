//! Decisions without IO: the next action of the agent loop, the blocks of a reply that enter the
//! history, and the form in which a broken or refused history is sent.

mod agent_loop;
pub mod history;
pub mod interrupted_reply;
pub mod repair;
pub mod sent_view;

pub use agent_loop::{AgentLoop, Bounds, Finish, Step};
