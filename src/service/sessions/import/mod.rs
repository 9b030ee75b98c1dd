//! Importing a session from an export: all of it, or nothing.

mod contents;
mod events;
mod history;
mod lines;
mod reply;

use bytes::Bytes;
use sqlx::PgConnection;

use crate::domain::ids::{SessionId, TenantId};
use crate::domain::session::{Session, Settings};
use crate::service::agents::resolve_session;
use crate::service::content::{ContentTotals, check_model_support};
use crate::service::creator::Creator;
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::offload::offload;
use crate::service::quotas::{NewSession, NewSessionSize, session_limits, within_quotas};
use crate::service::session_settings::NewSettings;
use crate::service::state::Service;
use crate::service::transaction::in_transaction;
use crate::store::session_transfer::insert_history;
use crate::store::sessions::{find, insert};
use history::ImportedHistory;
use lines::ExportLines;

/// An export to import.
pub(crate) struct ImportRequest {
    pub(crate) creator: Creator,
    /// The lines of the export.
    pub(crate) body: Bytes,
    /// The memory that the body takes while it is parsed, in bytes.
    pub(crate) size: usize,
}

/// Creates a session with the settings and messages of an export.
pub(crate) async fn import_session(
    service: &Service,
    request: ImportRequest,
) -> Result<Session, Error> {
    let ImportRequest { creator, body, size } = request;
    let tenant = creator.tenant;
    let parsed = offload(size, move || {
        let ExportLines { settings, messages } = ExportLines::parse(&body)?;
        Ok::<_, Error>((settings, ImportedHistory::build(messages)?))
    });
    let (settings, imported) = parsed.await??;
    if settings.external_id.is_some() {
        return Err(Error::field("/lines/1/settings/external_id", "cannot be imported"));
    }
    let new = resolve_session(service, tenant, settings).await;
    let mut new = new.map_err(|error| error.under("/lines/1/settings"))?;
    creator.pin(&mut new.settings);
    check_found_tools(&imported, &new.settings)?;
    let contents: Vec<(String, &str)> = imported
        .contents
        .iter()
        .map(|content| (content.pointer.clone(), content.text.as_str()))
        .collect();
    let models = &service.defaults.model_rules.models;
    check_model_support(models, &new.settings, &contents).await?;
    let contents = imported.contents.iter().map(|content| content.text.clone()).collect();
    let max_bytes = models.max_message_bytes(new.settings.model_ref());
    ContentTotals::check(Vec::new(), contents, (max_bytes, "/lines")).await?;
    in_time(store(service, tenant, &new, &imported)).await
}

/// Refuses results that refer to tools which the session has not deferred: the model's server refuses
/// them.
fn check_found_tools(imported: &ImportedHistory, settings: &Settings) -> Result<(), Error> {
    let unknown = imported.found_tools.iter().find(|(_, name)| !settings.is_deferred(name));
    unknown.map_or(Ok(()), |(pointer, name)| {
        let message = format!("refers to {name:?}, which is no deferred tool of the session");
        Err(Error::field(pointer, message))
    })
}

async fn store(
    service: &Service,
    tenant: TenantId,
    new: &NewSettings,
    imported: &ImportedHistory,
) -> Result<Session, Error> {
    let id = SessionId::new();
    let limits = session_limits(service, tenant).await?;
    let size = NewSessionSize { stored: imported.size(), ..NewSessionSize::default() };
    let store = async |conn: &mut PgConnection| {
        insert(conn, &new.row(id, tenant)).await?;
        insert_history(conn, tenant, id, &imported.history).await?;
        Ok(find(conn, tenant, id).await?)
    };
    let stored = in_transaction(service, tenant, async |conn| {
        within_quotas(conn, tenant, limits, NewSession { id, size }, store).await
    });
    let stored = stored.await?;
    service.bus.lists_changed();
    stored.ok_or_else(|| Error::Internal(format!("the session {id} was not stored")))
}
