//! Runs to be accepted as the arrays that their statement reads: one for each column.

use uuid::Uuid;

use super::encoded::EncodedAccept;
use crate::domain::ids::WorkerId;

#[derive(Default)]
pub(super) struct AcceptColumns<'a> {
    pub(super) session_ids: Vec<Uuid>,
    pub(super) tenant_ids: Vec<Uuid>,
    pub(super) run_ids: Vec<Uuid>,
    pub(super) message_ids: Vec<&'a str>,
    pub(super) inputs: Vec<&'a str>,
    pub(super) options: Vec<&'a str>,
    pub(super) idempotency_keys: Vec<Option<&'a str>>,
    pub(super) client_message_ids: Vec<Option<&'a str>>,
    pub(super) fingerprints: Vec<&'a [u8]>,
    pub(super) event_types: Vec<&'static str>,
    pub(super) event_bodies: Vec<&'a str>,
    pub(super) may_wait: Vec<bool>,
    /// Array literals.
    pub(super) versions: Vec<Option<String>>,
    pub(super) workers: Vec<Option<Uuid>>,
    pub(super) running_event_ids: Vec<&'a str>,
    pub(super) request_event_ids: Vec<String>,
}

impl<'a> AcceptColumns<'a> {
    pub(super) fn of(accepts: &[&'a EncodedAccept]) -> Self {
        let mut columns = Self::default();
        for accept in accepts {
            columns.session_ids.push(accept.session_id.as_uuid());
            columns.tenant_ids.push(accept.tenant.as_uuid());
            columns.run_ids.push(accept.run_id.as_uuid());
            columns.message_ids.push(&accept.message_id);
            columns.inputs.push(&accept.input);
            columns.options.push(&accept.options);
            columns.idempotency_keys.push(accept.idempotency_key.as_deref());
            columns.client_message_ids.push(accept.client_message_id.as_deref());
            columns.fingerprints.push(&accept.fingerprint);
            columns.event_types.push(accept.event.kind);
            columns.event_bodies.push(&accept.event.body);
            columns.may_wait.push(accept.may_wait);
            columns.versions.push(accept.versions.as_deref().map(array_literal));
            columns.workers.push(accept.worker.map(WorkerId::as_uuid));
            columns.running_event_ids.push(&accept.running.id);
            columns.request_event_ids.push(accept.request_event.to_string());
        }
        columns
    }
}

fn array_literal(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}
