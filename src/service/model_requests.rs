//! Recorded requests to the model, and their regenerated bodies.

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;
use tokio::task::spawn_blocking;

use super::error::Error;
use super::lookup::find_run;
use super::paging::{ListPage, PageRequest, read_page};
use super::state::Service;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::page::Slice;
use crate::domain::request::{StoredRequest, hexadecimal};
use crate::store::requests::{RequestFilter, find_sources, list};

/// A recorded request with its body.
#[derive(Debug)]
pub(crate) struct ModelRequest {
    /// The record.
    pub(crate) stored: StoredRequest,
    /// The body; JSON `null` if this version of the service generates other bytes.
    pub(crate) body: Box<RawValue>,
}

/// Lists the recorded requests of a run, by their numbers.
pub(crate) async fn list_model_requests(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
    request: PageRequest<i32>,
) -> Result<ListPage<StoredRequest, i32>, Error> {
    find_run(service, tenant, session_id, run_id).await?;
    let read = service.pool.with(tenant, async |conn| {
        let filter = |slice| RequestFilter { tenant, session_id, run_id, slice };
        if request.from.is_some() {
            let last = Slice { from: None, is_upwards: false, limit: 1 };
            let newest = list(conn, filter(last)).await?.pop().map_or(0, |stored| stored.n);
            request.check_number(newest)?;
        }
        Ok(read_page!(request, |stored| stored.n, |slice| list(conn, filter(slice))))
    });
    read.await
}

/// Reads a recorded request and regenerates its body from the history.
///
/// The body is returned only if its hash equals the recorded one.
pub(crate) async fn read_model_request(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
    n: i32,
) -> Result<ModelRequest, Error> {
    find_run(service, tenant, session_id, run_id).await?;
    let slice = Slice { from: Some(n.saturating_sub(1)), is_upwards: true, limit: 1 };
    let filter = RequestFilter { tenant, session_id, run_id, slice };
    let read = async |conn: &mut PgConnection| {
        let found = list(conn, filter).await?.pop().filter(|request| request.n == n);
        let stored = found.ok_or_else(|| Error::RequestNotFound(n.to_string()))?;
        let (seq, form) = (stored.record.message_seq, &stored.record.form);
        let sources = find_sources(conn, session_id, run_id, seq, form).await?;
        Ok::<_, Error>((stored, sources))
    };
    let (stored, sources) = service.pool.with(tenant, read).await?;
    let sources = sources.ok_or_else(|| Error::RunNotFound(run_id.to_string()))?;
    let (assemble, form) = (service.assemble, stored.record.form.clone());
    // A long history takes long.
    let regenerated = spawn_blocking(move || {
        let body = assemble(&sources, &form)?;
        let hash = hexadecimal(&Sha256::digest(&body));
        Ok::<_, serde_json::Error>((serde_json::from_slice::<Box<RawValue>>(&body)?, hash))
    });
    let (body, hash) = regenerated.await.map_err(Error::internal)?.map_err(Error::internal)?;
    let is_same = hash == stored.record.body_hash;
    Ok(ModelRequest { stored, body: if is_same { body } else { RawValue::NULL.to_owned() } })
}
