//! Decisions without IO: what the loop does next, and what of a reply enters the history.

mod agent_loop;
pub mod history;

pub use agent_loop::{AgentLoop, Bounds, Finish, Step};
