//! The settings of a new session: the request for them, its checks, and the pinned result.

mod build;
mod context;
mod deferred_tools;
mod fallback_models;
mod members;
mod model_change;
pub(super) mod model_rules;
mod permissions;
mod request;
mod sub_agents;
mod system_prompt;
mod unstorable_text;

pub(in crate::service) use build::NewSettings;
pub use context::MIN_COMPACT_AT;
pub(crate) use context::SessionContext;
pub(crate) use members::{
    MAX_METADATA, NOT_READABLE, generation_errors, is_readable_object, limit_errors, title_problem,
};
pub(crate) use model_change::ModelChange;
pub(in crate::service) use model_change::check_history;
pub use model_rules::{ModelRules, is_beta};
pub(crate) use permissions::check_mode;
pub(crate) use request::{CreateSession, ModelMetadata};
pub(crate) use sub_agents::SessionSubAgent;
pub(crate) use system_prompt::SessionSystem;
