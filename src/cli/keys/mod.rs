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
    /// Print JSON, an object a line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a key and print it, once: only a hash of it is kept
    Create(Create),
    /// List keys, without their secrets
    List {
        /// Only those of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
    },
    /// Take a key back: it is refused everywhere within 5 s, and its streams are torn
    Revoke {
        /// The key's id, which is also its first part
        id: KeyId,
    },
    /// Make a key in the place of another, with its name, tenant, scope and length of life, and
    /// print it
    Rotate {
        /// The id of the key that is replaced
        id: KeyId,
        /// How long that one is still good
        #[arg(long, default_value = "1h", value_parser = length, value_name = "TIME")]
        grace: Duration,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// What the key is for, at most 100 characters
    name: String,
    /// Whose sessions it opens
    #[arg(long, default_value = "default", value_name = "NAME")]
    tenant: String,
    /// Make this tenant, which must be new, for the key
    #[arg(long, conflicts_with = "tenant", value_name = "NAME")]
    new_tenant: Option<String>,
    /// What it may do
    #[arg(long, value_enum, default_value = "write")]
    scope: Scope,
    /// How long it is good, such as 30d or 12h [default: until it is revoked]
    #[arg(long, value_parser = length, value_name = "TIME")]
    expires_in: Option<Duration>,
}

/// A key that was just made.
struct Made {
    key: ApiKey,
    record: KeyRecord,
}

impl Command {
    /// Works while the service runs, on the private database too.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Self { database, json, action } = self;
        with_database(database, "twostep keys", async |conn| match action {
            Action::Create(wish) => {
                let made = create(conn, &wish).await?;
                output::complain("This is the key. It is shown only now:");
                show_new(&made, json)
            }
            Action::List { tenant } => show_list(&list(conn, tenant).await?, json),
            Action::Revoke { id } => {
                if !api_keys::revoke(conn, id).await? {
                    bail!("there is no key {id}");
                }
                show_list(&[known(conn, id).await?], json)
            }
            Action::Rotate { id, grace } => {
                let made = rotate(conn, id, grace).await?;
                output::complain(&format!("The key before: {}", line(&known(conn, id).await?)));
                output::complain("This is the new key. It is shown only now:");
                show_new(&made, json)
            }
        })
        .await
    }
}

async fn create(conn: &mut PgConnection, wish: &Create) -> anyhow::Result<Made> {
    check_name(&wish.name)?;
    let key = ApiKey::generate().context("the system gives no random bits")?;
    let mut transaction = conn.begin().await?;
    let tenant_id = match &wish.new_tenant {
        Some(name) => new_tenant(&mut transaction, name).await?,
        None => tenant(&mut transaction, &wish.tenant).await?,
    };
    let new = NewKey {
        id: key.id(),
        tenant_id,
        name: &wish.name,
        hash: key.hash(),
        scope: wish.scope,
        lifetime: wish.expires_in,
    };
    api_keys::insert(&mut transaction, &new).await?;
    transaction.commit().await?;
    let record = known(conn, key.id()).await?;
    Ok(Made { key, record })
}

async fn rotate(conn: &mut PgConnection, id: KeyId, grace: Duration) -> anyhow::Result<Made> {
    let old = known(conn, id).await?;
    let key = ApiKey::generate().context("the system gives no random bits")?;
    if !api_keys::replace(conn, id, (key.id(), key.hash()), grace).await? {
        match old.status {
            KeyStatus::Active => bail!("the key {id} has been replaced before"),
            status @ (KeyStatus::Expired | KeyStatus::Revoked) => {
                bail!("the key {id} is {}: make a new one", status.as_str())
            }
        }
    }
    let record = known(conn, key.id()).await?;
    Ok(Made { key, record })
}

async fn list(conn: &mut PgConnection, name: Option<String>) -> anyhow::Result<Vec<KeyRecord>> {
    let tenant = match name {
        Some(name) => Some(tenant(conn, &name).await?),
        None => None,
    };
    Ok(api_keys::list(conn, tenant).await?)
}

async fn known(conn: &mut PgConnection, id: KeyId) -> anyhow::Result<KeyRecord> {
    api_keys::find(conn, id).await?.with_context(|| format!("there is no key {id}"))
}

async fn tenant(conn: &mut PgConnection, name: &str) -> anyhow::Result<TenantId> {
    let found = tenants::find(conn, name).await?;
    found.with_context(|| format!("there is no tenant {name:?}"))
}

async fn new_tenant(conn: &mut PgConnection, name: &str) -> anyhow::Result<TenantId> {
    check_name(name)?;
    let id = TenantId::new();
    if !tenants::insert(conn, id, name).await? {
        bail!("there is a tenant {name:?} already: say --tenant for it");
    }
    Ok(id)
}

fn check_name(name: &str) -> anyhow::Result<()> {
    if !is_name(name) {
        bail!(
            "{name:?} is no name: it needs 1 to 100 characters, none of them a control character"
        );
    }
    Ok(())
}
