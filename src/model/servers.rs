//! The model servers of a process: that of the default provider, and those of named providers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::request_limit::RequestLimit;
use super::server_health::{ModelHealth, ServerHealth};
use super::{BadClient, Model, Server};
use crate::domain::circuit::Circuit;
use crate::domain::model::ModelRef;

/// The configuration of a named provider's server.
#[derive(Debug, Clone)]
pub struct NamedServer {
    /// The name of the provider.
    pub name: Box<str>,
    /// Its server.
    pub server: Server,
    /// Maximum number of its requests at once in this process; `None` for no limit.
    pub max_requests: Option<usize>,
}

/// A model server with the health of its models.
#[derive(Debug)]
pub struct ModelServer {
    /// The name of the provider; none for the default provider.
    name: Option<Box<str>>,
    /// The client.
    pub client: Model,
    /// The circuit breakers and the retry budgets of its models.
    health: ServerHealth,
    /// The limit of its requests at once, if it has one.
    pub limit: Option<Arc<RequestLimit>>,
}

/// The model servers of a process.
#[derive(Debug)]
pub struct ModelServers {
    default: ModelServer,
    named: BTreeMap<Box<str>, ModelServer>,
}

impl ModelServer {
    /// The name of the provider; none for the default provider.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The label of metrics and log lines: the name of the provider, or `default`.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or("default")
    }

    /// The health of a model, for a run that starts.
    pub fn health_of(&self, model: ModelRef<'_>) -> Arc<ModelHealth> {
        self.health.of(model.name, Instant::now())
    }

    /// The state of the circuit that is the least closed, over all models of the server.
    pub fn circuit(&self, now: Instant) -> Circuit {
        self.health.circuit(now)
    }
}

impl ModelServers {
    /// Creates the clients of the named providers.
    pub fn new(default: Model, named: &[NamedServer]) -> Result<Self, BadClient> {
        let client = |NamedServer { name, server, max_requests }: &NamedServer| {
            let server = ModelServer {
                name: Some(name.clone()),
                client: Model::of(server)?,
                health: ServerHealth::default(),
                limit: max_requests.map(RequestLimit::new),
            };
            Ok((name.clone(), server))
        };
        let named = named.iter().map(client).collect::<Result<_, BadClient>>()?;
        let health = ServerHealth::default();
        Ok(Self {
            default: ModelServer { name: None, client: default, health, limit: None },
            named,
        })
    }

    /// The server of a model; none if its provider is not configured in this process.
    pub fn of(&self, model: ModelRef<'_>) -> Option<&ModelServer> {
        model.provider.map_or(Some(&self.default), |name| self.named.get(name))
    }

    /// The server of the default provider.
    pub const fn default(&self) -> &ModelServer {
        &self.default
    }

    /// All servers, that of the default provider first.
    pub fn iter(&self) -> impl Iterator<Item = &ModelServer> {
        std::iter::once(&self.default).chain(self.named.values())
    }

    /// The names of the named providers, separated by commas.
    pub fn names(&self) -> String {
        self.named.keys().map(|name| &**name).collect::<Vec<_>>().join(", ")
    }

    /// The state of the circuit that is the least closed, over all servers.
    pub fn circuit(&self, now: Instant) -> Circuit {
        self.iter().map(|server| server.circuit(now)).max().unwrap_or(Circuit::Closed)
    }
}
