//! Webhooks: HTTP endpoints of a tenant that receive the events of runs.

mod deliveries;
mod request;

use std::time::Duration;

use super::deadline::in_time;
use super::error::Error;
use crate::domain::ids::{TenantId, WebhookId};
use crate::domain::quota::QuotaResource;
use crate::domain::webhook::{MAX_WEBHOOKS, Webhook, WebhookSecret};
use crate::service::quotas::check_needs;
use crate::service::state::Service;
use crate::service::transaction::in_transaction;
use crate::store::webhooks::{self as store, Changes, NewWebhook};
pub(crate) use deliveries::{
    DeliveryFilter, WebhookKey, list_deliveries, replay_deliveries, send_test,
};
pub(crate) use request::{CreateWebhook, UpdateWebhook};

/// The time for which the previous secret also signs deliveries after a rotation.
pub(crate) const OLD_SECRET_LIFETIME: Duration = Duration::from_hours(24);

/// A new webhook with the secret that signs its deliveries.
pub(crate) struct CreatedWebhook {
    pub(crate) webhook: Webhook,
    pub(crate) secret: WebhookSecret,
}

/// Creates a webhook.
pub(crate) async fn create_webhook(
    service: &Service,
    tenant_id: TenantId,
    request: CreateWebhook,
) -> Result<CreatedWebhook, Error> {
    let events = request.check(service)?;
    let (id, secret) = (WebhookId::new(), new_secret()?);
    let new = NewWebhook {
        id,
        tenant_id,
        url: &request.url,
        description: request.description.as_deref(),
        events: &events,
        secret: &secret,
    };
    let limits = service.quotas.limits(tenant_id).await?;
    let stored = in_transaction(service, tenant_id, async |conn| {
        check_needs(conn, tenant_id, &limits, &[(QuotaResource::Webhooks, 1)]).await?;
        if !store::insert(conn, &new).await? {
            return Err(Error::TooManyWebhooks(MAX_WEBHOOKS));
        }
        Ok(store::find(conn, tenant_id, id).await?)
    });
    let webhook = in_time(stored).await?.ok_or_else(|| Error::webhook_not_found(id))?;
    Ok(CreatedWebhook { webhook, secret })
}

/// Lists the webhooks of a tenant, oldest first.
pub(crate) async fn list_webhooks(
    service: &Service,
    tenant: TenantId,
) -> Result<Vec<Webhook>, Error> {
    Ok(service.pool.with(tenant, async |conn| store::list(conn, tenant).await).await?)
}

/// Finds a webhook.
pub(crate) async fn find_webhook(
    service: &Service,
    tenant: TenantId,
    id: WebhookId,
) -> Result<Webhook, Error> {
    let webhook = service.pool.with(tenant, async |conn| store::find(conn, tenant, id).await);
    webhook.await?.ok_or_else(|| Error::webhook_not_found(id))
}

/// Changes a webhook.
pub(crate) async fn update_webhook(
    service: &Service,
    tenant: TenantId,
    id: WebhookId,
    request: UpdateWebhook,
) -> Result<Webhook, Error> {
    let events = request.check(service)?;
    let changes = Changes {
        url: request.url.as_deref(),
        description: request.description.as_ref().map(Option::as_deref),
        events: events.as_deref(),
        is_enabled: request.enabled,
    };
    let updated = service.pool.with(tenant, async |conn| {
        Ok::<_, Error>(store::update(conn, tenant, id, &changes).await?)
    });
    in_time(updated).await?.ok_or_else(|| Error::webhook_not_found(id))
}

/// Deletes a webhook with its queued deliveries.
pub(crate) async fn delete_webhook(
    service: &Service,
    tenant: TenantId,
    id: WebhookId,
) -> Result<(), Error> {
    let deleted = service
        .pool
        .with(tenant, async |conn| Ok::<_, Error>(store::delete(conn, tenant, id).await?));
    if in_time(deleted).await? { Ok(()) } else { Err(Error::webhook_not_found(id)) }
}

/// Replaces the secret of a webhook. The previous secret also signs deliveries for
/// [`OLD_SECRET_LIFETIME`].
pub(crate) async fn rotate_secret(
    service: &Service,
    tenant: TenantId,
    id: WebhookId,
) -> Result<WebhookSecret, Error> {
    let secret = new_secret()?;
    let replaced = service.pool.with(tenant, async |conn| {
        Ok::<_, Error>(store::replace_secret(conn, tenant, id, &secret, OLD_SECRET_LIFETIME).await?)
    });
    if in_time(replaced).await? { Ok(secret) } else { Err(Error::webhook_not_found(id)) }
}

fn new_secret() -> Result<WebhookSecret, Error> {
    WebhookSecret::generate().map_err(Error::internal)
}
