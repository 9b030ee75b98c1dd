//! Other protocols for the same use cases.

mod ag_ui;
mod ai_sdk;
mod files;
mod managed_agents;
mod openai;
