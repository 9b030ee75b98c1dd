//! The words that every layer shares. Nothing here does IO or imports another layer.

pub mod attempt;
pub mod claim;
pub mod event;
pub mod explanation;
pub mod ids;
pub mod message;
pub mod model;
pub mod note;
pub mod pending;
pub mod permission;
pub mod plain;
pub mod price;
pub mod provider;
pub mod run;
pub mod session;
pub mod tool;
pub mod tool_error;
pub mod usage;
pub mod verification;
