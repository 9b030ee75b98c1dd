//! The API keys that a service needs at its start: the configured first key, and the check that callers
//! can have one.

use anyhow::{Context as _, bail};
use sqlx::{Connection as _, PgConnection};

use crate::config::{BootstrapKey, Listen, Serve};
use crate::domain::api_key::{ApiKey, KeyStatus, Scope};
use crate::store::api_keys::{self, NewKey};
use crate::store::connections::Connections;
use crate::store::tenants;

/// The name of the first key.
const NAME: &str = "bootstrap";
/// The tenant of the first key.
const TENANT: &str = "default";

/// The settings of the API, if its callers need a key or a token.
fn with_keys(listen: &Listen) -> Option<&Serve> {
    match listen {
        Listen::Api(serve) if serve.http.needs_keys => Some(serve),
        Listen::Api(_) | Listen::Health(_) | Listen::Nowhere => None,
    }
}

/// Stores the configured first key, and checks that a service that requires keys has at least one valid
/// key or will generate one. Without a key it starts only at a loopback address, with a warning.
pub(super) async fn check_keys(listen: &Listen, pool: &Connections) -> anyhow::Result<()> {
    let Some(serve) = with_keys(listen) else { return Ok(()) };
    if let Some(BootstrapKey::Given(key)) = &serve.bootstrap_key {
        pool.with(async |conn| store_given(conn, key).await).await?;
    }
    // Callers with a token need no key.
    if serve.http.tokens.is_some()
        || pool.with(async |conn| api_keys::has_valid_key(conn).await).await?
    {
        return Ok(());
    }
    let prints = matches!(serve.bootstrap_key, Some(BootstrapKey::Printed));
    if prints && !pool.with(async |conn| api_keys::has_any_key(conn).await).await? {
        return Ok(());
    }
    let bind = serve.bind;
    if !bind.ip().is_loopback() {
        bail!(
            "{bind} requires an API key, and there is no valid one: create one with \
             `twostep keys create NAME`, or set TWOSTEP_BOOTSTRAP_KEY to a key, or to `print` for a \
             database without keys"
        );
    }
    tracing::warn!(
        "there is no API key, so all requests are refused: create one with `twostep keys create \
         NAME`, or accept callers of this machine without a key with --auth open"
    );
    Ok(())
}

/// Generates the first key if the service must print it and the database has none. Called last, because
/// a service that fails to start later would not print it.
pub(super) async fn generate_key(
    listen: &Listen,
    pool: &Connections,
) -> anyhow::Result<Option<ApiKey>> {
    let prints = with_keys(listen).is_some_and(|serve| {
        serve.http.tokens.is_none() && matches!(serve.bootstrap_key, Some(BootstrapKey::Printed))
    });
    if !prints || pool.with(async |conn| api_keys::has_any_key(conn).await).await? {
        return Ok(None);
    }
    let key = ApiKey::generate().context("the system returned no random bytes")?;
    let is_first = pool.with(async |conn| insert_first(conn, &key).await).await?;
    Ok(is_first.then_some(key))
}

/// Inserts a key unless another process has inserted one meanwhile.
async fn insert_first(conn: &mut PgConnection, key: &ApiKey) -> anyhow::Result<bool> {
    let mut transaction = conn.begin().await?;
    api_keys::lock(&mut transaction).await?;
    if api_keys::has_any_key(&mut transaction).await? {
        return Ok(false);
    }
    insert(&mut transaction, key).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Stores the key that the operator chose, unless the database has it. A revoked key stays revoked.
async fn store_given(conn: &mut PgConnection, key: &ApiKey) -> anyhow::Result<()> {
    let id = key.id();
    let mut transaction = conn.begin().await?;
    api_keys::lock(&mut transaction).await?;
    let Some(record) = api_keys::find(&mut transaction, id).await? else {
        insert(&mut transaction, key).await?;
        transaction.commit().await?;
        tracing::info!(key.id = %id, "key of TWOSTEP_BOOTSTRAP_KEY stored");
        return Ok(());
    };
    match (record.status, api_keys::find_key(&mut transaction, id).await?) {
        (_, Some(stored)) if stored.hash != key.hash() => bail!(
            "TWOSTEP_BOOTSTRAP_KEY has the id {id} of an existing key and another secret: use that \
             key, or a key with another id"
        ),
        (KeyStatus::Active, _) => {}
        (status @ (KeyStatus::Expired | KeyStatus::Revoked), _) => {
            let status = status.as_str();
            tracing::warn!(key.id = %id, status, "key of TWOSTEP_BOOTSTRAP_KEY is not valid");
        }
    }
    Ok(())
}

async fn insert(conn: &mut PgConnection, key: &ApiKey) -> anyhow::Result<()> {
    let tenant = tenants::find(conn, TENANT).await?;
    let tenant_id = tenant.with_context(|| format!("tenant {TENANT:?} does not exist"))?;
    let (id, hash) = (key.id(), key.hash());
    let new = NewKey { id, tenant_id, name: NAME, hash, scope: Scope::Write, lifetime: None };
    Ok(api_keys::insert(conn, &new).await?)
}
