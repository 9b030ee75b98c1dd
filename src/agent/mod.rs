//! Decisions without IO: what the loop does next, what of a reply enters the history, and
//! in what form a broken history is sent.

mod agent_loop;
pub mod history;
pub mod repair;

pub use agent_loop::{AgentLoop, Bounds, Finish, Step};
