//! Environments in the form of this protocol.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::unsupported::refuse;
use crate::domain::environment::Environment;
use crate::domain::ids::{EnvironmentId, TenantId};
use crate::domain::rfc3339;
use crate::http::error::ApiError;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::environments::{EnvironmentChanges, find_environment};
use crate::service::json::nullable;

/// The id of the environment that every tenant has: that of sessions which name no other.
pub(super) const DEFAULT: &str = "env_default";

/// An environment (`BetaEnvironment`).
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub(in crate::http) struct ManagedEnvironment(pub(super) Value);

/// The members of an environment. A new one needs `name`; a change leaves absent members as they are.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ManagedEnvironmentBody {
    /// A name for display, at most 256 characters.
    name: Option<String>,
    /// A description, at most 2000 characters.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    /// At most 16 strings. In a change, null removes a member.
    #[schema(value_type = Option<Object>)]
    metadata: Option<BTreeMap<String, Option<String>>>,
    /// `{"type": "cloud"}`, with unrestricted networking and without packages: the service neither
    /// restricts nor installs anything for an environment.
    #[schema(value_type = Option<Object>)]
    config: Option<Value>,
    /// Only `organization`.
    scope: Option<String>,
}

impl ManagedEnvironmentBody {
    /// The changes, which create an environment if it is new.
    pub(super) fn into_changes(self, is_new: bool) -> Result<EnvironmentChanges, ApiError> {
        if is_new && self.name.is_none() {
            return Err(ApiError::field("/name", "is missing and required"));
        }
        if let Some(config) = &self.config {
            check_config(config)?;
        }
        if self.scope.is_some_and(|scope| scope != "organization") {
            return Err(ApiError::field("/scope", "is not `organization`"));
        }
        Ok(EnvironmentChanges {
            name: self.name,
            description: self.description,
            metadata: self.metadata.unwrap_or_default(),
            archives: false,
        })
    }
}

fn check_config(config: &Value) -> Result<(), ApiError> {
    if config.is_null() {
        return Ok(());
    }
    if config.get("type").is_none_or(|kind| kind != "cloud") {
        let message = "is not `cloud`: the tools of a session run where the operator runs them";
        return Err(ApiError::field("/config/type", message));
    }
    let networking = config.get("networking").filter(|networking| !networking.is_null());
    if networking.is_some_and(|it| it.get("type").is_none_or(|kind| kind != "unrestricted")) {
        let message = "is not `unrestricted`: the operator restricts the network";
        return Err(ApiError::field("/config/networking/type", message));
    }
    let packages = config.get("packages").and_then(Value::as_object);
    for (name, list) in packages.into_iter().flatten().filter(|(name, _)| *name != "type") {
        let reason = "the operator installs packages";
        refuse(Some(list), &format!("/config/packages/{name}"), reason)?;
    }
    Ok(())
}

impl ManagedEnvironment {
    /// The environment that every tenant has.
    pub(super) fn default_one() -> Self {
        let epoch = Timestamp::UNIX_EPOCH;
        let description = Some("The workspaces of this service.".to_owned());
        Self::with((DEFAULT, "default", description), &BTreeMap::new(), [epoch, epoch], None)
    }

    fn with(
        (id, name, description): (&str, &str, Option<String>),
        metadata: &BTreeMap<String, String>,
        [created_at, updated_at]: [Timestamp; 2],
        archived_at: Option<Timestamp>,
    ) -> Self {
        let none = json!([]);
        Self(json!({
            "type": "environment",
            "id": id,
            "name": name,
            "description": description,
            "metadata": metadata,
            "config": {
                "type": "cloud",
                "networking": { "type": "unrestricted" },
                "packages": {
                    "type": "packages", "apt": none, "cargo": none, "gem": none, "go": none,
                    "npm": none, "pip": none,
                },
            },
            "scope": "organization",
            "created_at": rfc3339::text(created_at),
            "updated_at": rfc3339::text(updated_at),
            "archived_at": archived_at.map(rfc3339::text),
        }))
    }
}

impl From<&Environment> for ManagedEnvironment {
    fn from(it: &Environment) -> Self {
        let id = it.id.to_string();
        let texts = (id.as_str(), it.name.as_str(), it.description.clone());
        Self::with(texts, &it.metadata, [it.created_at, it.updated_at], it.archived_at)
    }
}

/// The id of a stored environment.
pub(super) fn stored_id(id: &str) -> Result<EnvironmentId, Error> {
    id.parse().map_err(|_| Error::EnvironmentNotFound(id.to_owned()))
}

/// The environment of a new session; none for the default one.
pub(super) async fn environment_for_session(
    api: &Api,
    tenant: TenantId,
    id: Option<&str>,
) -> Result<Option<EnvironmentId>, ApiError> {
    let Some(id) = id.filter(|id| *id != DEFAULT) else { return Ok(None) };
    let found = find_environment(&api.service, tenant, stored_id(id)?).await?;
    if found.archived_at.is_some() {
        return Err(ApiError::field("/environment_id", "is the id of an archived environment"));
    }
    Ok(Some(found.id))
}
