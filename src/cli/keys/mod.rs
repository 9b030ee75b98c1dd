//! `twostep keys`.

mod length;
mod show;

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use sqlx::{Connection as _, PgConnection};

use super::database::with_database;
use super::output;
use crate::config::DatabaseArgs;
use crate::domain::api_key::{ApiKey, KeyRecord, KeyStatus, Scope};
use crate::domain::ids::{KeyId, TenantId};
use crate::domain::name::is_name;
use crate::store::api_keys::{self, NewKey};
use crate::store::tenants;
use length::length;
use show::{line, show_list, show_new};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print JSON, one object per line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key and print it; only its hash is stored, so it cannot be printed again
    Create(Create),
    /// List keys without their secrets
    List {
        /// Only the keys of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
    },
    /// Revoke a key: within 5 s all processes reject it and close its streams
    Revoke {
        /// Id of the key, which is also its first part
        id: KeyId,
    },
    /// Create a replacement of a key, with the same name, tenant, scope and lifetime, and print it
    Rotate {
        /// Id of the key to replace
        id: KeyId,
        /// Time during which the old key remains valid
        #[arg(long, default_value = "1h", value_parser = length, value_name = "TIME")]
        grace: Duration,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the key, at most 100 characters
    name: String,
    /// Tenant whose sessions the key can access
    #[arg(long, default_value = "default", value_name = "NAME")]
    tenant: String,
    /// Create this tenant, which must not exist yet, for the key
    #[arg(long, conflicts_with = "tenant", value_name = "NAME")]
    new_tenant: Option<String>,
    /// Permissions of the key
    #[arg(long, value_enum, default_value = "write")]
    scope: Scope,
    /// Lifetime, such as 30d or 12h [default: until the key is revoked]
    #[arg(long, value_parser = length, value_name = "TIME")]
    expires_in: Option<Duration>,
}

/// A key that was just created.
struct NewApiKey {
    key: ApiKey,
    record: KeyRecord,
}

impl Command {
    /// Runs the command. It may run while the service runs, also on the private database.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Self { database, json, action } = self;
        with_database(database, "twostep keys", async |conn| match action {
            Action::Create(args) => {
                let new_key = create(conn, &args).await?;
                output::print_error("The key is shown only once:");
                show_new(&new_key, json)
            }
            Action::List { tenant } => show_list(&list(conn, tenant).await?, json),
            Action::Revoke { id } => {
                if !api_keys::revoke(conn, id).await? {
                    bail!("key {id} does not exist");
                }
                show_list(&[known(conn, id).await?], json)
            }
            Action::Rotate { id, grace } => {
                let new_key = rotate(conn, id, grace).await?;
                output::print_error(&format!("Old key: {}", line(&known(conn, id).await?)));
                output::print_error("The new key is shown only once:");
                show_new(&new_key, json)
            }
        })
        .await
    }
}

async fn create(conn: &mut PgConnection, args: &Create) -> anyhow::Result<NewApiKey> {
    check_name(&args.name)?;
    let key = ApiKey::generate().context("the system returned no random bytes")?;
    let mut transaction = conn.begin().await?;
    let tenant_id = match &args.new_tenant {
        Some(name) => new_tenant(&mut transaction, name).await?,
        None => tenant(&mut transaction, &args.tenant).await?,
    };
    let new = NewKey {
        id: key.id(),
        tenant_id,
        name: &args.name,
        hash: key.hash(),
        scope: args.scope,
        lifetime: args.expires_in,
    };
    api_keys::insert(&mut transaction, &new).await?;
    transaction.commit().await?;
    let record = known(conn, key.id()).await?;
    Ok(NewApiKey { key, record })
}

async fn rotate(conn: &mut PgConnection, id: KeyId, grace: Duration) -> anyhow::Result<NewApiKey> {
    let old = known(conn, id).await?;
    let key = ApiKey::generate().context("the system returned no random bytes")?;
    if !api_keys::replace(conn, id, &key, grace).await? {
        match old.status {
            KeyStatus::Active => bail!("the key {id} has already been replaced"),
            status @ (KeyStatus::Expired | KeyStatus::Revoked) => {
                bail!("the key {id} is {}: create a new key", status.as_str())
            }
        }
    }
    let record = known(conn, key.id()).await?;
    Ok(NewApiKey { key, record })
}

async fn list(conn: &mut PgConnection, name: Option<String>) -> anyhow::Result<Vec<KeyRecord>> {
    let tenant = match name {
        Some(name) => Some(tenant(conn, &name).await?),
        None => None,
    };
    Ok(api_keys::list(conn, tenant).await?)
}

async fn known(conn: &mut PgConnection, id: KeyId) -> anyhow::Result<KeyRecord> {
    api_keys::find(conn, id).await?.with_context(|| format!("key {id} does not exist"))
}

async fn tenant(conn: &mut PgConnection, name: &str) -> anyhow::Result<TenantId> {
    let found = tenants::find(conn, name).await?;
    found.with_context(|| format!("tenant {name:?} does not exist"))
}

async fn new_tenant(conn: &mut PgConnection, name: &str) -> anyhow::Result<TenantId> {
    check_name(name)?;
    let id = TenantId::new();
    if !tenants::insert(conn, id, name).await? {
        bail!("tenant {name:?} already exists: use --tenant");
    }
    Ok(id)
}

fn check_name(name: &str) -> anyhow::Result<()> {
    if !is_name(name) {
        bail!("{name:?} is not a valid name: use 1 to 100 characters without control characters");
    }
    Ok(())
}
