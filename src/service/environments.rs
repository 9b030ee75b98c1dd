//! Environments of the protocol of Claude Managed Agents: names that sessions refer to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::PgConnection;

use super::deadline::in_time;
use super::error::Error;
use super::metadata::metadata_problem;
use super::state::Service;
use super::transaction::in_transaction;
use crate::domain::environment::Environment;
use crate::domain::ids::{EnvironmentId, TenantId};
use crate::store::agents::lock;
use crate::store::environments::{self as store, MAX_ENVIRONMENTS};

/// Maximum length of a name, in characters.
const MAX_NAME: usize = 256;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 2000;

/// Changes of an environment; absent members stay unchanged.
#[derive(Debug, Default)]
pub(crate) struct EnvironmentChanges {
    pub(crate) name: Option<String>,
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    pub(crate) description: Option<Option<String>>,
    /// Members to set, or to remove if they are null.
    pub(crate) metadata: BTreeMap<String, Option<String>>,
    pub(crate) archives: bool,
}

impl EnvironmentChanges {
    fn apply(self, environment: &mut Environment) -> Result<(), Error> {
        let is_text = |text: &str, max| text.chars().count() <= max && !text.contains('\0');
        if let Some(name) = self.name {
            if name.is_empty() || !is_text(&name, MAX_NAME) {
                let message = format!("is not 1 to {MAX_NAME} characters without NUL");
                return Err(Error::field("/name", message));
            }
            environment.name = name;
        }
        if let Some(description) = self.description {
            if !description.as_deref().is_none_or(|text| is_text(text, MAX_DESCRIPTION)) {
                let message = format!("is not at most {MAX_DESCRIPTION} characters without NUL");
                return Err(Error::field("/description", message));
            }
            environment.description = description.filter(|text| !text.is_empty());
        }
        for (name, value) in self.metadata {
            match value {
                Some(value) => environment.metadata.insert(name, value),
                None => environment.metadata.remove(&name),
            };
        }
        if let Some(problem) = metadata_problem(&environment.metadata) {
            return Err(Error::field("/metadata", problem));
        }
        if self.archives && environment.archived_at.is_none() {
            environment.archived_at = Some(Timestamp::now());
        }
        Ok(())
    }
}

/// Lists the environments of a tenant in the order of their creation.
pub(crate) async fn list_environments(
    service: &Service,
    tenant: TenantId,
) -> Result<Vec<Environment>, Error> {
    Ok(service.pool.with(tenant, async |conn| store::list(conn, tenant, None).await).await?)
}

/// Finds an environment.
pub(crate) async fn find_environment(
    service: &Service,
    tenant: TenantId,
    id: EnvironmentId,
) -> Result<Environment, Error> {
    let find = async |conn: &mut PgConnection| find(conn, tenant, id).await;
    service.pool.with(tenant, find).await
}

/// Creates an environment.
pub(crate) async fn create_environment(
    service: &Service,
    tenant: TenantId,
    members: EnvironmentChanges,
) -> Result<Environment, Error> {
    let now = Timestamp::now();
    let mut new = Environment {
        id: EnvironmentId::new(),
        name: String::new(),
        description: None,
        metadata: BTreeMap::new(),
        created_at: now,
        updated_at: now,
        archived_at: None,
    };
    members.apply(&mut new)?;
    let create = in_transaction(service, tenant, async |conn| {
        lock(conn, tenant).await?;
        if store::list(conn, tenant, None).await?.len() >= MAX_ENVIRONMENTS {
            let message = format!(
                "would be one environment too many: at most {MAX_ENVIRONMENTS} are allowed; delete one"
            );
            return Err(Error::field("", message));
        }
        store::insert(conn, tenant, &new).await?;
        find(conn, tenant, new.id).await
    });
    in_time(create).await
}

/// Changes an environment.
pub(crate) async fn update_environment(
    service: &Service,
    (tenant, id): (TenantId, EnvironmentId),
    changes: EnvironmentChanges,
) -> Result<Environment, Error> {
    let update = async move |conn: &mut PgConnection| {
        lock(conn, tenant).await?;
        let mut environment = find(conn, tenant, id).await?;
        changes.apply(&mut environment)?;
        store::update(conn, tenant, &environment).await?;
        find(conn, tenant, id).await
    };
    in_time(in_transaction(service, tenant, update)).await
}

/// Deletes an environment. Sessions that refer to it keep its id.
pub(crate) async fn delete_environment(
    service: &Service,
    tenant: TenantId,
    id: EnvironmentId,
) -> Result<(), Error> {
    let delete = async |conn: &mut PgConnection| store::delete(conn, tenant, id).await;
    let was_deleted = service.pool.with(tenant, delete).await?;
    if was_deleted { Ok(()) } else { Err(Error::EnvironmentNotFound(id.to_string())) }
}

async fn find(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: EnvironmentId,
) -> Result<Environment, Error> {
    let found = store::list(conn, tenant, Some(id)).await?.pop();
    found.ok_or_else(|| Error::EnvironmentNotFound(id.to_string()))
}
