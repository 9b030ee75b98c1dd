//! Decisions without IO: what the loop does next, what of a reply enters the history, and
//! in what form a history is sent that is broken, or that the model's side refuses.

mod agent_loop;
pub mod history;
pub mod repair;
pub mod sent_view;

pub use agent_loop::{AgentLoop, Bounds, Finish, Step};
