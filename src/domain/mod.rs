//! The words that every layer shares. Nothing here does IO or imports another layer.

pub mod attempt;
pub mod circuit;
pub mod claim;
pub mod event;
pub mod explanation;
pub mod ids;
pub mod message;
pub mod model;
pub mod model_options;
pub mod note;
pub mod output_budget;
pub mod output_schema;
pub mod pending;
pub mod permission;
pub mod plain;
pub mod price;
pub mod run;
pub mod server_tool;
pub mod session;
pub mod system;
pub mod tool;
pub mod tool_error;
pub mod usage;
pub mod verification;
pub mod word;
