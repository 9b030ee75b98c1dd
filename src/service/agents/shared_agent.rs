//! The agents that all tenants have.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::domain::agent::{AgentName, AgentSource};

/// An agent of the operator or of the service.
#[derive(Debug, Clone)]
pub(super) struct SharedAgent {
    pub(super) source: AgentSource,
    pub(super) version: i32,
    pub(super) description: Option<String>,
    /// The profile, in the form of a request body.
    pub(super) profile: Box<RawValue>,
}

/// The agents of the operator, by name.
#[derive(Debug, Clone, Default)]
pub struct OperatorAgents(pub(super) Arc<BTreeMap<AgentName, SharedAgent>>);
