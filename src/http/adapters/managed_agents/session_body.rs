//! The bodies of requests that create and change sessions.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent_body::apply_model;
use super::tools::{Selection, ToolEntry};
use super::unsupported::refuse;
use crate::http::error::ApiError;
use crate::service::json::{nullable, parse};
use crate::service::session_settings::CreateSession;
use crate::service::sessions::UpdateSession;
use crate::service::{Error, Service};

/// Micro-dollars of one cent.
const CENT: i64 = 10_000;

/// A new session.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ManagedSessionBody {
    /// The id of an agent, or an object of the type `agent` or `agent_with_overrides`.
    agent: Option<Value>,
    /// The id of an environment. When absent, `env_default`.
    pub(super) environment_id: Option<String>,
    /// A title for display, at most 500 characters.
    title: Option<String>,
    /// Strings that are stored with the session.
    #[schema(value_type = Option<Object>)]
    metadata: Option<BTreeMap<String, String>>,
    /// The maximum cost of the session: `{"type": "limit", "max_list_cost": {"amount": "2500",
    /// "currency": "USD"}}`, in cents. The operator has to configure the prices of the model.
    #[schema(value_type = Option<Object>)]
    budget: Option<Budget>,
    /// Messages that are posted to the session: `user.message`.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    pub(super) initial_events: Vec<Map<String, Value>>,
    /// Not supported: only empty.
    #[schema(value_type = Option<Vec<Object>>)]
    resources: Option<Value>,
    /// Not supported: only empty.
    #[schema(value_type = Option<Vec<Object>>)]
    vault_ids: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    r#type: String,
    max_list_cost: Money,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Money {
    amount: String,
    currency: String,
}

/// The agent of a new session.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentChoice {
    r#type: String,
    id: String,
    version: Option<i64>,
    model: Option<Value>,
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    system: Option<Option<String>>,
    tools: Option<Vec<ToolEntry>>,
    mcp_servers: Option<Value>,
    skills: Option<Value>,
}

impl ManagedSessionBody {
    /// The request for the session.
    pub(super) fn creation(&mut self, service: &Service) -> Result<CreateSession, ApiError> {
        refuse(self.resources.as_ref(), "/resources", "this service mounts nothing")?;
        let vaults = self.vault_ids.take().map(Value::Array);
        refuse(vaults.as_ref(), "/vault_ids", "this service has no vaults")?;
        let mut settings = Map::new();
        match self.agent.take() {
            None | Some(Value::Null) => {
                return Err(ApiError::field("/agent", "is missing and required"));
            }
            Some(Value::String(id)) => {
                settings.insert("agent".to_owned(), id.into());
            }
            Some(choice) => {
                let choice = serde_json::to_vec(&choice).map_err(Error::internal)?;
                let choice: AgentChoice = parse(&choice).map_err(|error| error.under("/agent"))?;
                choice.apply(service, &mut settings)?;
            }
        }
        if let Some(title) = self.title.take() {
            settings.insert("title".to_owned(), title.into());
        }
        if let Some(metadata) = self.metadata.take() {
            settings.insert("metadata".to_owned(), serde_json::json!(metadata));
        }
        if let Some(budget) = &self.budget {
            let cost = budget.cost()?;
            settings.insert("budget".to_owned(), serde_json::json!({ "cost": cost }));
        }
        Ok(parse(&serde_json::to_vec(&settings).map_err(Error::internal)?)?)
    }
}

impl AgentChoice {
    fn apply(self, service: &Service, settings: &mut Map<String, Value>) -> Result<(), ApiError> {
        let has_overrides = match self.r#type.as_str() {
            "agent" => false,
            "agent_with_overrides" => true,
            _ => {
                let message = "is not `agent` or `agent_with_overrides`";
                return Err(ApiError::field("/agent/type", message));
            }
        };
        let name = match self.version {
            Some(version) => format!("{}@{version}", self.id),
            None => self.id,
        };
        settings.insert("agent".to_owned(), name.into());
        let is_plain = self.model.is_none() && self.system.is_none() && self.tools.is_none();
        if !has_overrides && !is_plain {
            let message = "is `agent`; only `agent_with_overrides` has other members";
            return Err(ApiError::field("/agent/type", message));
        }
        let reason = "the operator configures MCP servers";
        refuse(self.mcp_servers.as_ref(), "/agent/mcp_servers", reason)?;
        refuse(self.skills.as_ref(), "/agent/skills", "this service has no skills")?;
        if let Some(model) = self.model {
            apply_model(&model, settings)?;
        }
        if let Some(system) = self.system {
            settings.insert("system".to_owned(), system.unwrap_or_default().into());
        }
        if let Some(tools) = self.tools {
            let Selection { tools, permissions } = Selection::of(service, tools)?;
            settings.insert("tools".to_owned(), tools.into());
            settings.insert("permissions".to_owned(), permissions.into());
        }
        Ok(())
    }
}

impl Budget {
    /// The maximum cost in micro-dollars.
    fn cost(&self) -> Result<i64, ApiError> {
        if self.r#type != "limit" {
            return Err(ApiError::field("/budget/type", "is not `limit`"));
        }
        if self.max_list_cost.currency != "USD" {
            return Err(ApiError::field("/budget/max_list_cost/currency", "is not `USD`"));
        }
        let cents: Option<i64> = self.max_list_cost.amount.parse().ok();
        let cost = cents.filter(|cents| *cents > 0).and_then(|cents| cents.checked_mul(CENT));
        let message = "is not a whole number of cents, at least 1, as a string";
        cost.ok_or_else(|| ApiError::field("/budget/max_list_cost/amount", message))
    }
}

/// A cost as this protocol has it: in cents, rounded up.
pub(super) fn money(cost: i64) -> Value {
    let cents = cost.div_euclid(CENT) + i64::from(cost.rem_euclid(CENT) > 0);
    serde_json::json!({ "amount": cents.to_string(), "currency": "USD" })
}

/// Changes of a session; absent members stay unchanged.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ManagedSessionChanges {
    /// A title for display; null removes it.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    title: Option<Option<String>>,
    /// Members to set, or to remove if they are null.
    #[schema(value_type = Option<Object>)]
    metadata: Option<BTreeMap<String, Option<String>>>,
    /// Not supported: the tools of a session do not change.
    #[schema(value_type = Option<Object>)]
    agent: Option<Value>,
    /// Not supported: the budget of a session does not change.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Object>)]
    budget: Option<Option<Value>>,
    /// Not supported: only empty.
    #[schema(value_type = Option<Vec<Object>>)]
    vault_ids: Option<Value>,
}

impl ManagedSessionChanges {
    pub(super) fn into_update(self) -> Result<UpdateSession, ApiError> {
        refuse(self.agent.as_ref(), "/agent", "the tools of a session do not change")?;
        refuse(self.vault_ids.as_ref(), "/vault_ids", "this service has no vaults")?;
        if self.budget.is_some() {
            let message = "is not supported: the budget of a session does not change";
            return Err(ApiError::field("/budget", message));
        }
        let mut changes = Map::new();
        if let Some(title) = self.title {
            changes.insert("title".to_owned(), title.into());
        }
        if let Some(metadata) = self.metadata {
            changes.insert("metadata".to_owned(), serde_json::json!(metadata));
        }
        Ok(parse(&serde_json::to_vec(&changes).map_err(Error::internal)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_whole_number_of_cents_rounded_up() {
        for (cost, amount) in
            [(0, "0"), (1, "1"), (10_000, "1"), (10_001, "2"), (25_000_000, "2500")]
        {
            assert_eq!(money(cost)["amount"], amount);
        }
    }

    #[test]
    fn a_budget_is_a_positive_number_of_cents() {
        let cost = |amount: &str| {
            let max_list_cost = Money { amount: amount.to_owned(), currency: "USD".to_owned() };
            Budget { r#type: "limit".to_owned(), max_list_cost }.cost().ok()
        };
        assert_eq!(cost("2500"), Some(25_000_000));
        for amount in ["0", "-1", "1.5", "", "9223372036854775807"] {
            assert_eq!(cost(amount), None, "{amount}");
        }
    }
}
