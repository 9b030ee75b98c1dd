//! API keys.

use std::time::Duration;

use jiff_sqlx::Timestamp;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::hash::read_hash;
use super::{StoreError, unreadable};
use crate::domain::api_key::{ApiKey, KeyRecord, KeyStatus, Scope, SecretHash};
use crate::domain::ids::{KeyId, TenantId};

const TABLE: &str = "api_keys";

/// A key to be inserted.
#[derive(Debug)]
pub struct NewKey<'a> {
    /// The ID.
    pub id: KeyId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// A name for people.
    pub name: &'a str,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// The scope.
    pub scope: Scope,
    /// Its lifetime; `None` for unlimited.
    pub lifetime: Option<Duration>,
}

/// The facts by which a key is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredKey {
    /// The hash of its secret.
    pub hash: SecretHash,
    /// The tenant.
    pub tenant: TenantId,
    /// The scope.
    pub scope: Scope,
    /// Its remaining lifetime; `None` for unlimited.
    pub expires_in: Option<Duration>,
    /// True if the last recorded use is old enough to record this one.
    pub is_last_used_stale: bool,
}

struct Row {
    id: Uuid,
    name: String,
    tenant_id: Uuid,
    tenant: String,
    scope: String,
    is_expired: bool,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

fn scope_of(word: &str) -> Result<Scope, StoreError> {
    Scope::parse(word).ok_or(word).map_err(unreadable(TABLE, "scope"))
}

impl TryFrom<Row> for KeyRecord {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let status = match row.revoked_at {
            Some(_) => KeyStatus::Revoked,
            None if row.is_expired => KeyStatus::Expired,
            None => KeyStatus::Active,
        };
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            tenant_id: row.tenant_id.into(),
            tenant: row.tenant,
            scope: scope_of(&row.scope)?,
            status,
            created_at: row.created_at.to_jiff(),
            expires_at: row.expires_at.map(Timestamp::to_jiff),
            revoked_at: row.revoked_at.map(Timestamp::to_jiff),
            last_used_at: row.last_used_at.map(Timestamp::to_jiff),
        })
    }
}

/// Inserts a key.
pub async fn insert(conn: &mut PgConnection, new: &NewKey<'_>) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scope, expires_at)
         VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))",
        new.id.as_uuid(),
        new.tenant_id.as_uuid(),
        new.name,
        &new.hash.0,
        new.scope.as_str(),
        new.lifetime.map(|lifetime| lifetime.as_secs_f64()),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Finds the facts by which a key is verified, if the key is valid.
pub async fn find_key(conn: &mut PgConnection, id: KeyId) -> Result<Option<StoredKey>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT secret_hash, tenant_id, scope,
                  extract(epoch FROM expires_at - now())::float8 AS good_for,
                  coalesce(last_used_at < now() - interval '1 minute', true) AS "is_note_due!"
           FROM api_keys
           WHERE id = $1 AND revoked_at IS NULL AND coalesce(expires_at > now(), true)"#,
        id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let hash = read_hash(TABLE, "secret_hash", row.secret_hash)?;
    Ok(Some(StoredKey {
        hash: SecretHash(hash),
        tenant: row.tenant_id.into(),
        scope: scope_of(&row.scope)?,
        expires_in: row.good_for.map(|seconds| Duration::from_secs_f64(seconds.max(0.0))),
        is_last_used_stale: row.is_note_due,
    }))
}

/// Records the use of a key, at most once a minute.
pub async fn update_last_used(conn: &mut PgConnection, id: KeyId) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE api_keys SET last_used_at = now()
         WHERE id = $1 AND coalesce(last_used_at < now() - interval '1 minute', true)",
        id.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns whether any valid key exists.
pub async fn has_valid_key(conn: &mut PgConnection) -> Result<bool, StoreError> {
    let is_any = sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM api_keys
               WHERE revoked_at IS NULL AND coalesce(expires_at > now(), true)
           ) AS "is_any!""#,
    )
    .fetch_one(conn)
    .await?;
    Ok(is_any)
}

/// Returns whether the database has a key, valid or not.
pub async fn has_any_key(conn: &mut PgConnection) -> Result<bool, StoreError> {
    let is_any = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM api_keys) AS "is_any!""#)
        .fetch_one(conn)
        .await?;
    Ok(is_any)
}

/// Keeps other transactions from inserting keys until the end of this one.
pub async fn lock(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!("LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE").execute(conn).await?;
    Ok(())
}

/// Finds a key.
pub async fn find(conn: &mut PgConnection, id: KeyId) -> Result<Option<KeyRecord>, StoreError> {
    Ok(select(conn, Some(id), None).await?.pop())
}

/// Lists the keys of a tenant, or of all tenants, oldest first.
pub async fn list(
    conn: &mut PgConnection,
    tenant: Option<TenantId>,
) -> Result<Vec<KeyRecord>, StoreError> {
    select(conn, None, tenant).await
}

async fn select(
    conn: &mut PgConnection,
    id: Option<KeyId>,
    tenant: Option<TenantId>,
) -> Result<Vec<KeyRecord>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT k.id, k.name, k.tenant_id, t.name AS tenant, k.scope,
                  coalesce(k.expires_at <= now(), false) AS "is_expired!",
                  k.created_at AS "created_at: Timestamp", k.expires_at AS "expires_at: Timestamp",
                  k.revoked_at AS "revoked_at: Timestamp",
                  k.last_used_at AS "last_used_at: Timestamp"
           FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
           WHERE ($1::uuid IS NULL OR k.id = $1) AND ($2::uuid IS NULL OR k.tenant_id = $2)
           ORDER BY k.id"#,
        id.map(KeyId::as_uuid),
        tenant.map(TenantId::as_uuid),
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(TryInto::try_into).collect()
}

/// Revokes a key permanently. Returns false if there is no such key.
pub async fn revoke(conn: &mut PgConnection, id: KeyId) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1",
        id.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Inserts a key that replaces a valid one. Returns false if there is no valid key of this ID, or
/// if it was replaced before. The new key has the name, owner, scope and lifetime of the old one,
/// which expires after the grace period at the latest.
pub async fn replace(
    conn: &mut PgConnection,
    old: KeyId,
    new: &ApiKey,
    grace: Duration,
) -> Result<bool, StoreError> {
    let hash = new.hash();
    let mut transaction = conn.begin().await?;
    // Two concurrent replacements of a key must not both succeed.
    sqlx::query!("SELECT FROM api_keys WHERE id = $1 FOR UPDATE", old.as_uuid())
        .execute(&mut *transaction)
        .await?;
    let done = sqlx::query!(
        "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scope, replaces, expires_at)
         SELECT $2, tenant_id, name, $3, scope, id, now() + (expires_at - created_at)
         FROM api_keys
         WHERE id = $1 AND revoked_at IS NULL AND coalesce(expires_at > now(), true)
           AND NOT EXISTS (SELECT FROM api_keys WHERE replaces = $1)",
        old.as_uuid(),
        new.id().as_uuid(),
        &hash.0,
    )
    .execute(&mut *transaction)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!(
        "UPDATE api_keys SET expires_at = least(expires_at, now() + make_interval(secs => $2))
         WHERE id = $1",
        old.as_uuid(),
        grace.as_secs_f64(),
    )
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(true)
}
