//! Model capabilities that are checked before a request is sent.

mod capabilities;
mod table;
#[cfg(test)]
mod tests;

pub use capabilities::{Capabilities, Effort, ThinkingKind};
pub use table::{Known, Models, built_in};
