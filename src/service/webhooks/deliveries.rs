//! Deliveries of webhooks: listing, sending a test, and sending again.

use jiff::Timestamp;
use serde_json::json;
use sqlx::PgConnection;

use crate::domain::ids::{DeliveryId, TenantId, WebhookId};
use crate::domain::rfc3339;
use crate::domain::webhook::{Delivery, DeliveryState, WebhookEvent};
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::paging::{ListPage, PageRequest, read_page};
use crate::service::state::Service;
use crate::store::deliveries::{DeliverySelection, Replay, insert_test, list, replay};
use crate::store::webhooks::find;

/// A webhook of a tenant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WebhookKey {
    pub(crate) tenant: TenantId,
    pub(crate) id: WebhookId,
}

impl WebhookKey {
    /// Refuses a webhook that does not exist or is disabled.
    async fn check_enabled(self, conn: &mut PgConnection) -> Result<(), Error> {
        let webhook = find(conn, self.tenant, self.id)
            .await?
            .ok_or_else(|| Error::webhook_not_found(self.id))?;
        if webhook.disabled.is_some() { Err(Error::WebhookDisabled) } else { Ok(()) }
    }
}

/// A filter for the deliveries of a webhook.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryFilter {
    pub(crate) webhook: WebhookKey,
    /// Only deliveries in this state.
    pub(crate) state: Option<DeliveryState>,
}

/// Queues a test delivery.
pub(crate) async fn send_test(service: &Service, webhook: WebhookKey) -> Result<DeliveryId, Error> {
    let id = DeliveryId::new();
    let body = json!({ "type": WebhookEvent::TEST, "timestamp": rfc3339::text(Timestamp::now()), "data": {} });
    let body = body.to_string();
    let queued = service.pool.with(webhook.tenant, async |conn| {
        webhook.check_enabled(conn).await?;
        Ok::<_, Error>(insert_test(conn, webhook.tenant, webhook.id, id, &body).await?)
    });
    if in_time(queued).await? { Ok(id) } else { Err(Error::TooManyTests) }
}

/// Lists the deliveries of a webhook.
pub(crate) async fn list_deliveries(
    service: &Service,
    filter: DeliveryFilter,
    request: PageRequest<DeliveryId>,
) -> Result<ListPage<Delivery, DeliveryId>, Error> {
    let DeliveryFilter { webhook: WebhookKey { tenant, id: webhook_id }, state } = filter;
    let selection = |slice| DeliverySelection { tenant, webhook_id, state, slice };
    let read = service.pool.with(tenant, async |conn| {
        find(conn, tenant, webhook_id)
            .await?
            .ok_or_else(|| Error::webhook_not_found(webhook_id))?;
        Ok(read_page!(request, |delivery| delivery.id, |slice| list(conn, selection(slice))))
    });
    read.await
}

/// Queues finished deliveries again. Returns their number.
pub(crate) async fn replay_deliveries(
    service: &Service,
    webhook: WebhookKey,
    selection: Replay,
) -> Result<u64, Error> {
    let replayed = service.pool.with(webhook.tenant, async |conn| {
        webhook.check_enabled(conn).await?;
        Ok::<_, Error>(replay(conn, webhook.tenant, webhook.id, selection).await?)
    });
    in_time(replayed).await
}
