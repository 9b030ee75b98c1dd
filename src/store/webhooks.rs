//! Webhooks.

use std::time::Duration;

use jiff_sqlx::Timestamp;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::{StoreError, unreadable};
use crate::domain::ids::{TenantId, WebhookId};
use crate::domain::webhook::{Disabled, MAX_WEBHOOKS, Webhook, WebhookEvent, WebhookSecret};

const TABLE: &str = "webhooks";

/// Deliveries deleted in one statement.
const BATCH: i64 = 1000;

/// A webhook to be inserted.
#[derive(Debug)]
pub struct NewWebhook<'a> {
    /// The ID.
    pub id: WebhookId,
    /// The owner of the sessions whose events it receives.
    pub tenant_id: TenantId,
    /// The URL.
    pub url: &'a str,
    /// A description for people.
    pub description: Option<&'a str>,
    /// The event types.
    pub events: &'a [WebhookEvent],
    /// The secret that signs deliveries.
    pub secret: &'a WebhookSecret,
}

struct Row {
    id: Uuid,
    url: String,
    description: Option<String>,
    events: Vec<String>,
    disabled: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl TryFrom<Row> for Webhook {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let event = |word: String| WebhookEvent::parse(&word).ok_or(word);
        let events: Result<Vec<_>, String> = row.events.into_iter().map(event).collect();
        let disabled = row.disabled.map(|word| Disabled::parse(&word).ok_or(word)).transpose();
        Ok(Self {
            id: row.id.into(),
            url: row.url,
            description: row.description,
            events: events.map_err(unreadable(TABLE, "events"))?,
            disabled: disabled.map_err(unreadable(TABLE, "disabled"))?,
            created_at: row.created_at.to_jiff(),
            updated_at: row.updated_at.to_jiff(),
        })
    }
}

fn event_names(events: &[WebhookEvent]) -> Vec<String> {
    events.iter().map(|event| event.as_str().to_owned()).collect()
}

/// Inserts a webhook. Returns false if the tenant has the maximum number.
pub async fn insert(conn: &mut PgConnection, new: &NewWebhook<'_>) -> Result<bool, StoreError> {
    let mut transaction = conn.begin().await?;
    // Two concurrent inserts must not both be the last one allowed.
    sqlx::query!("SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE", new.tenant_id.as_uuid())
        .execute(&mut *transaction)
        .await?;
    let done = sqlx::query!(
        "INSERT INTO webhooks (id, tenant_id, url, description, events, secret)
         SELECT $1, $2, $3, $4, $5, $6
         WHERE (SELECT count(*) FROM webhooks WHERE tenant_id = $2) < $7",
        new.id.as_uuid(),
        new.tenant_id.as_uuid(),
        new.url,
        new.description,
        &event_names(new.events),
        new.secret.as_bytes(),
        MAX_WEBHOOKS,
    )
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(done.rows_affected() > 0)
}

/// Finds a webhook of a tenant.
pub async fn find(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: WebhookId,
) -> Result<Option<Webhook>, StoreError> {
    Ok(select(conn, tenant, Some(id)).await?.pop())
}

/// Lists the webhooks of a tenant, oldest first.
pub async fn list(conn: &mut PgConnection, tenant: TenantId) -> Result<Vec<Webhook>, StoreError> {
    select(conn, tenant, None).await
}

async fn select(
    conn: &mut PgConnection,
    tenant: TenantId,
    only: Option<WebhookId>,
) -> Result<Vec<Webhook>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT id, url, description, events, disabled,
                  created_at AS "created_at: Timestamp", updated_at AS "updated_at: Timestamp"
           FROM webhooks WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id = $2) ORDER BY id"#,
        tenant.as_uuid(),
        only.map(WebhookId::as_uuid),
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(TryInto::try_into).collect()
}

/// Changes of a webhook. `None` leaves a member unchanged.
#[derive(Debug, Default)]
pub struct Changes<'a> {
    /// The URL.
    pub url: Option<&'a str>,
    /// The description; `Some(None)` removes it.
    pub description: Option<Option<&'a str>>,
    /// The event types.
    pub events: Option<&'a [WebhookEvent]>,
    /// True if it receives events.
    pub is_enabled: Option<bool>,
}

/// Changes a webhook and returns the result, or `None` if there is no such webhook.
pub async fn update(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: WebhookId,
    changes: &Changes<'_>,
) -> Result<Option<Webhook>, StoreError> {
    let events = changes.events.map(event_names);
    sqlx::query_as!(
        Row,
        r#"UPDATE webhooks
           SET url = coalesce($3, url),
               description = CASE WHEN $4 THEN $5 ELSE description END,
               events = coalesce($6, events),
               disabled = CASE $7::boolean WHEN true THEN NULL
                                           WHEN false THEN coalesce(disabled, 'by_owner')
                                           ELSE disabled END,
               updated_at = now()
           WHERE tenant_id = $1 AND id = $2
           RETURNING id, url, description, events, disabled,
                     created_at AS "created_at: Timestamp", updated_at AS "updated_at: Timestamp""#,
        tenant.as_uuid(),
        id.as_uuid(),
        changes.url,
        changes.description.is_some(),
        changes.description.flatten(),
        events.as_deref(),
        changes.is_enabled,
    )
    .fetch_optional(conn)
    .await?
    .map(TryInto::try_into)
    .transpose()
}

/// Replaces the secret of a webhook. Returns false if there is no such webhook. The previous secret
/// also signs for a while.
pub async fn replace_secret(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: WebhookId,
    secret: &WebhookSecret,
    grace: Duration,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "UPDATE webhooks
         SET old_secret = secret, old_secret_until = now() + make_interval(secs => $4),
             secret = $3, updated_at = now()
         WHERE tenant_id = $1 AND id = $2",
        tenant.as_uuid(),
        id.as_uuid(),
        secret.as_bytes(),
        grace.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Disables a webhook whose address reported that it is gone, unless its URL has changed since.
pub async fn disable_gone(
    conn: &mut PgConnection,
    id: WebhookId,
    url: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE webhooks SET disabled = 'gone', updated_at = now()
         WHERE id = $1 AND url = $2 AND disabled IS NULL",
        id.as_uuid(),
        url,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes a webhook with its deliveries. Returns false if there is no such webhook.
///
/// It is disabled first, so that no step has to wait while its deliveries are being deleted.
pub async fn delete(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: WebhookId,
) -> Result<bool, StoreError> {
    let off = Changes { is_enabled: Some(false), ..Changes::default() };
    if update(conn, tenant, id, &off).await?.is_none() {
        return Ok(false);
    }
    while empty(conn, id).await? {}
    let done = sqlx::query!(
        "DELETE FROM webhooks WHERE tenant_id = $1 AND id = $2",
        tenant.as_uuid(),
        id.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Deletes some of a webhook's deliveries. Returns true if there may be more.
async fn empty(conn: &mut PgConnection, id: WebhookId) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM webhook_deliveries WHERE id IN (
             SELECT id FROM webhook_deliveries WHERE webhook_id = $1 LIMIT $2)",
        id.as_uuid(),
        BATCH,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
