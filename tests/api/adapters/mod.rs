//! Other protocols for the same use cases.

mod ai_sdk;
mod managed_agents;
