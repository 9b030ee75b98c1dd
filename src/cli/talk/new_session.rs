//! Options for the session that a command creates.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::domain::agent::AgentChoice;

#[derive(Debug, Args)]
pub(in crate::cli) struct NewSessionArgs {
    /// Agent of the new session: `coder`, or `coder@3` [default: none]
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    agent: Option<AgentChoice>,
    /// Model of the new session
    #[arg(long, conflicts_with = "session")]
    model: Option<String>,
    /// Tools of the new session
    #[arg(long, value_delimiter = ',', value_name = "NAMES", conflicts_with = "session")]
    tools: Option<Vec<String>>,
}

impl NewSessionArgs {
    /// The request body that creates the session.
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
