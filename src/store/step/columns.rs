//! A step as the arrays that its statement reads: one for each column, with an element for each row.

use uuid::Uuid;

use super::{CallRecord, NewMessage};
use crate::domain::ids::RunId;
use crate::domain::message::Role;
use crate::domain::stop_reason::ModelStop;
use crate::domain::tool_error::ToolErrorType;
use crate::store::{StoreError, unreadable};

/// Appended messages.
#[derive(Default)]
pub(super) struct MessageColumns<'a> {
    pub(super) roles: Vec<&'static str>,
    pub(super) ids: Vec<&'a str>,
    pub(super) contents: Vec<&'a str>,
    pub(super) models: Vec<Option<&'a str>>,
    pub(super) stop_reasons: Vec<Option<&'a str>>,
    pub(super) usages: Vec<Option<String>>,
}

impl<'a> MessageColumns<'a> {
    pub(super) fn of(messages: &'a [NewMessage]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for NewMessage { message_id, model, message } in messages {
            let usage = match message.role {
                Role::User => None,
                Role::Assistant => Some(
                    serde_json::to_string(&message.usage)
                        .map_err(unreadable("messages", "usage"))?,
                ),
            };
            columns.roles.push(message.role.as_str());
            columns.ids.push(message_id);
            columns.contents.push(message.content.as_str());
            columns.models.push(model.as_deref());
            columns.stop_reasons.push(message.stop_reason.as_ref().map(ModelStop::as_str));
            columns.usages.push(usage);
        }
        Ok(columns)
    }
}

/// Changed rows of the ledger.
#[derive(Default)]
pub(super) struct CallColumns<'a> {
    pub(super) ids: Vec<&'a str>,
    pub(super) states: Vec<&'static str>,
    pub(super) results: Vec<Option<&'a str>>,
    pub(super) executions: Vec<i32>,
    pub(super) hashes_before: Vec<Option<&'a [u8]>>,
    pub(super) hashes_after: Vec<Option<&'a [u8]>>,
    pub(super) change_paths: Vec<Option<&'a str>>,
    pub(super) change_results: Vec<Option<&'a str>>,
    pub(super) error_types: Vec<Option<&'static str>>,
    pub(super) awaits: Vec<Option<&'static str>>,
    pub(super) answer_ins: Vec<Option<f64>>,
    pub(super) input_hashes: Vec<Option<&'a [u8]>>,
    pub(super) sandboxes: Vec<Option<&'static str>>,
    pub(super) wait_reasons: Vec<Option<&'a str>>,
    pub(super) diffs: Vec<Option<&'a str>>,
    pub(super) sources: Vec<Option<String>>,
    pub(super) sub_agent_runs: Vec<Option<Uuid>>,
}

impl<'a> CallColumns<'a> {
    pub(super) fn of(records: &'a [CallRecord]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for record in records {
            columns.ids.push(&record.tool_use_id);
            columns.states.push(record.state.as_str());
            columns.results.push(record.result.as_deref());
            columns.executions.push(i32::from(record.is_execution));
            let change = record.change.as_ref();
            columns.hashes_before.push(change.and_then(|change| change.before.as_deref()));
            columns.hashes_after.push(change.map(|change| change.after.as_slice()));
            columns.change_paths.push(change.map(|change| change.path.as_str()));
            columns.change_results.push(change.map(|change| change.result.as_str()));
            columns.error_types.push(record.error_type.map(ToolErrorType::as_str));
            let wait = record.wait.as_ref();
            columns.awaits.push(wait.map(|wait| wait.awaits.as_str()));
            columns.answer_ins.push(wait.map(|wait| wait.within.as_secs_f64()));
            columns.wait_reasons.push(wait.and_then(|wait| wait.reason.as_deref()));
            columns.diffs.push(wait.and_then(|wait| wait.diff.as_deref()));
            columns.input_hashes.push(record.input_hash.as_deref());
            columns.sandboxes.push(record.sandbox);
            let sources = Some(&record.sources).filter(|sources| !sources.is_empty());
            let sources = sources.map(serde_json::to_string).transpose();
            columns.sources.push(sources.map_err(unreadable("tool_calls", "sources"))?);
            columns.sub_agent_runs.push(record.sub_agent_run.map(RunId::as_uuid));
        }
        Ok(columns)
    }
}
