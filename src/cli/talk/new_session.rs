//! What a new session is to be, where none is gone on with.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::domain::agent::AgentChoice;

#[derive(Debug, Args)]
pub(in crate::cli) struct NewSessionArgs {
    /// The agent that a new session is made as: `coder`, or `coder@3` [default: none]
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    agent: Option<AgentChoice>,
    /// The model of a new session
    #[arg(long, conflicts_with = "session")]
    model: Option<String>,
    /// The tools of a new session
    #[arg(long, value_delimiter = ',', value_name = "NAMES", conflicts_with = "session")]
    tools: Option<Vec<String>>,
}

impl NewSessionArgs {
    /// The body that makes it.
    pub(in crate::cli) fn body(&self) -> Value {
        let mut body = Map::new();
        if let Some(agent) = &self.agent {
            body.insert("agent".to_owned(), json!(agent.to_string()));
        }
        if let Some(model) = &self.model {
            body.insert("model".to_owned(), json!(model));
        }
        if let Some(tools) = &self.tools {
            body.insert("tools".to_owned(), json!(tools));
        }
        body.into()
    }
}
