//! Browser tokens.

use std::time::Duration;

use jiff_sqlx::{Timestamp, ToSqlx as _};
use sqlx::PgConnection;
use uuid::Uuid;

use super::hash::read_hash;
use super::{StoreError, unreadable};
use crate::domain::api_key::SecretHash;
use crate::domain::browser_token::{BrowserGrant, BrowserScope, BrowserTarget, BrowserTokenRecord};
use crate::domain::ids::{BrowserTokenId, KeyId, SessionId, TenantId};
use crate::domain::principal::{Principal, SubjectHash};

const TABLE: &str = "browser_tokens";

/// A browser token to be inserted.
#[derive(Debug)]
pub struct NewBrowserToken<'a> {
    /// The id.
    pub id: BrowserTokenId,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// The tenant.
    pub tenant: TenantId,
    /// The credential that creates it, if the service requires any.
    pub principal: Option<Principal>,
    /// The permissions.
    pub grant: &'a BrowserGrant,
    /// The lifetime.
    pub lifetime: Duration,
}

/// The facts by which a browser token is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBrowserToken {
    /// The hash of its secret.
    pub hash: SecretHash,
    /// The tenant.
    pub tenant: TenantId,
    /// The permissions.
    pub grant: BrowserGrant,
    /// The remaining lifetime.
    pub expires_in: Duration,
    /// True if the creator had a token of an identity provider.
    pub is_from_token: bool,
}

struct Row {
    id: Uuid,
    session_id: Option<Uuid>,
    user_name: Option<String>,
    scopes: Vec<String>,
    created_at: Timestamp,
    expires_at: Timestamp,
}

impl TryFrom<Row> for BrowserTokenRecord {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.into(),
            grant: grant(row.session_id, row.user_name, row.scopes)?,
            created_at: row.created_at.to_jiff(),
            expires_at: row.expires_at.to_jiff(),
        })
    }
}

fn grant(
    session_id: Option<Uuid>,
    user: Option<String>,
    scopes: Vec<String>,
) -> Result<BrowserGrant, StoreError> {
    let target = match (session_id, user) {
        (Some(id), _) => Ok(BrowserTarget::Session(id.into())),
        (None, Some(user)) => Ok(BrowserTarget::User(user)),
        (None, None) => Err("NULL"),
    };
    let scope = |word: String| BrowserScope::parse(&word).ok_or(word);
    let scopes: Result<Vec<_>, String> = scopes.into_iter().map(scope).collect();
    Ok(BrowserGrant {
        target: target.map_err(unreadable(TABLE, "user_name"))?,
        scopes: scopes.map_err(unreadable(TABLE, "scopes"))?,
    })
}

/// The two columns of a target.
fn columns(target: &BrowserTarget) -> (Option<Uuid>, Option<&str>) {
    match target {
        BrowserTarget::Session(id) => (Some(id.as_uuid()), None),
        BrowserTarget::User(user) => (None, Some(user)),
    }
}

/// Inserts a browser token. Returns `None` if the tenant does not have its session.
pub async fn insert(
    conn: &mut PgConnection,
    new: &NewBrowserToken<'_>,
) -> Result<Option<BrowserTokenRecord>, StoreError> {
    let (key, token) = match new.principal {
        Some(Principal::Key(id)) => (Some(id), None),
        Some(Principal::Token(subject, until)) => (None, Some((subject, until))),
        // A browser token creates no other.
        Some(Principal::BrowserToken(_)) | None => (None, None),
    };
    let (session_id, user) = columns(&new.grant.target);
    let scopes: Vec<String> =
        new.grant.scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    let row = sqlx::query_as!(
        Row,
        r#"INSERT INTO browser_tokens (id, secret_hash, tenant_id, key_id, token_holder, token_until,
                                       session_id, user_name, scopes, expires_at)
           SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9,
                  least(now() + make_interval(secs => $10), $6)
           WHERE $7::uuid IS NULL OR EXISTS (
               SELECT FROM sessions WHERE id = $7 AND tenant_id = $3)
           RETURNING id, session_id, user_name, scopes, created_at AS "created_at: Timestamp",
                     expires_at AS "expires_at: Timestamp""#,
        new.id.as_uuid(),
        &new.hash.0,
        new.tenant.as_uuid(),
        key.map(KeyId::as_uuid),
        token.map(|(SubjectHash(hash), _)| hash.to_vec()),
        token.map(|(_, until)| until.to_sqlx()) as _,
        session_id,
        user,
        &scopes,
        new.lifetime.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    row.map(TryInto::try_into).transpose()
}

/// Gives a valid browser token a new lifetime from now on, not beyond the end of the token that created
/// it. Returns `None` if the tenant has no such token that is valid.
pub async fn renew(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: BrowserTokenId,
    lifetime: Duration,
) -> Result<Option<BrowserTokenRecord>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"UPDATE browser_tokens
           SET expires_at = least(now() + make_interval(secs => $3), token_until)
           WHERE tenant_id = $1 AND id = $2 AND expires_at > now()
           RETURNING id, session_id, user_name, scopes, created_at AS "created_at: Timestamp",
                     expires_at AS "expires_at: Timestamp""#,
        tenant.as_uuid(),
        id.as_uuid(),
        lifetime.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    row.map(TryInto::try_into).transpose()
}

/// Deletes a browser token. Returns false if the tenant has no such token that is valid.
pub async fn delete(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: BrowserTokenId,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM browser_tokens WHERE tenant_id = $1 AND id = $2 AND expires_at > now()",
        tenant.as_uuid(),
        id.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Deletes the browser tokens of a session, or of a user and of this user's sessions. Returns the number
/// of those that were valid.
pub async fn delete_of(
    conn: &mut PgConnection,
    tenant: TenantId,
    target: &BrowserTarget,
) -> Result<i64, StoreError> {
    let (session_id, user) = columns(target);
    let deleted = sqlx::query_scalar!(
        r#"WITH deleted AS (
               DELETE FROM browser_tokens
               WHERE tenant_id = $1 AND (session_id = $2 OR user_name = $3 OR session_id IN (
                   SELECT id FROM sessions WHERE tenant_id = $1 AND user_name = $3))
               RETURNING expires_at)
           SELECT count(*) AS "valid!" FROM deleted WHERE expires_at > now()"#,
        tenant.as_uuid(),
        session_id,
        user,
    )
    .fetch_one(conn)
    .await?;
    Ok(deleted)
}

/// Deletes some expired browser tokens of any tenant. It runs with each insert and deletes more than
/// one, so that expired tokens do not accumulate.
pub async fn sweep(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!(
        "DELETE FROM browser_tokens WHERE id IN (
             SELECT id FROM browser_tokens WHERE expires_at <= now()
             ORDER BY expires_at LIMIT 100
             FOR UPDATE SKIP LOCKED)"
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Finds the facts by which a browser token is verified, if the token and the key that created it are
/// valid. A token that was created while the service required no key is never valid.
pub async fn find(
    conn: &mut PgConnection,
    id: BrowserTokenId,
) -> Result<Option<StoredBrowserToken>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT secret_hash, tenant_id, session_id, user_name, scopes,
                  extract(epoch FROM expires_at - now())::float8 AS "good_for!",
                  token_holder IS NOT NULL AS "is_from_token!"
           FROM browser_tokens b
           WHERE id = $1 AND expires_at > now()
             AND (token_holder IS NOT NULL OR EXISTS (
                  SELECT FROM api_keys k
                  WHERE k.id = b.key_id AND k.revoked_at IS NULL
                    AND coalesce(k.expires_at > now(), true)))"#,
        id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let hash = read_hash(TABLE, "secret_hash", row.secret_hash)?;
    Ok(Some(StoredBrowserToken {
        hash: SecretHash(hash),
        tenant: row.tenant_id.into(),
        grant: grant(row.session_id, row.user_name, row.scopes)?,
        expires_in: Duration::from_secs_f64(row.good_for.max(0.0)),
        is_from_token: row.is_from_token,
    }))
}

/// Returns whether a session of a tenant belongs to a target. A sub-agent's session belongs to whatever
/// the session that started it belongs to.
pub async fn is_session_of(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    target: &BrowserTarget,
) -> Result<bool, StoreError> {
    let (target_session, user) = columns(target);
    let belongs = sqlx::query_scalar!(
        r#"WITH RECURSIVE line AS (
               SELECT id, parent_session_id, user_name FROM sessions
               WHERE id = $1 AND tenant_id = $2
               UNION ALL
               SELECT parent.id, parent.parent_session_id, parent.user_name
               FROM line JOIN sessions parent ON parent.id = line.parent_session_id)
           SELECT EXISTS (
               SELECT FROM line
               WHERE id = $3 OR parent_session_id IS NULL AND user_name = $4) AS "belongs!""#,
        session_id.as_uuid(),
        tenant.as_uuid(),
        target_session,
        user,
    )
    .fetch_one(conn)
    .await?;
    Ok(belongs)
}
