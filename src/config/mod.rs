//! The operator's configuration. The only reader of the environment.

mod args;
mod bootstrap;
mod database;
mod edge;
mod effective_options;
mod environment;
mod forwarding;
mod memory;
mod model_providers;
mod models;
mod old_spellings;
mod permissions;
mod process;
mod provider;
mod provider_platform;
mod quotas;
mod reload;
mod secrets;
mod session;
mod settings;
mod tokens;
mod tool_servers;
mod tools;
mod traces;
mod user;
mod web;

pub use args::{
    Auth, ConnectionArgs, DatabaseArgs, LogArgs, LogFormat, ServeArgs, SessionArgs, WorkArgs,
    WorkerArgs,
};
pub use bootstrap::BootstrapKey;
pub use database::data_dir;
pub use edge::EdgeArgs;
pub use effective_options::{EffectiveOption, EffectiveOptions, Origin, unknown_variables};
pub use environment::{can_edit_lines, secret_option};
pub use forwarding::ForwardingArgs;
pub use models::ModelArgs;
pub use old_spellings::accept_old_variables;
pub use permissions::{DefaultDecision, PermissionArgs};
pub use provider::ProviderArgs;
pub use quotas::{QuotaArgs, QuotaLimit, quota};
pub use reload::FileContents;
pub use secrets::Secrets;
pub use session::{DEFAULT_SYSTEM, DEFAULT_TOOLS};
pub use settings::{Config, Database, Listen, ModelSource, ReloadableFiles, Serve, Work};
pub use tokens::TokenArgs;
pub use tools::ToolArgs;
pub use traces::{Collector, TraceArgs};
pub use web::{SearchService, WebArgs};
