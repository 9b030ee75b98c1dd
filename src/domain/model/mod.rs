//! Model capabilities that are checked before a request is sent.

mod capabilities;
mod model_ref;
mod provider_models;
mod table;
#[cfg(test)]
mod tests;

pub use capabilities::{Capabilities, Effort, ThinkingKind};
pub use model_ref::{ModelRef, is_provider_name};
pub use provider_models::ProviderModels;
pub use table::{Known, Models, UnknownProvider, built_in};
