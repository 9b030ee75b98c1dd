//! A step as the arrays that its statement reads: one for each column, with an element for each row.

use std::borrow::Cow;

use uuid::Uuid;

use super::{CallRecord, NewMessage};
use crate::domain::ids::RunId;
use crate::domain::message::Role;
use crate::domain::stop_reason::ModelStop;
use crate::domain::storable::{storable_json_of, storable_text};
use crate::domain::tool::ToolCall;
use crate::domain::tool_error::ToolErrorType;
use crate::store::{StoreError, unreadable};

/// Appended messages.
#[derive(Default)]
pub(super) struct MessageColumns<'a> {
    pub(super) roles: Vec<&'static str>,
    pub(super) ids: Vec<Cow<'a, str>>,
    pub(super) contents: Vec<&'a str>,
    pub(super) models: Vec<Option<Cow<'a, str>>>,
    pub(super) stop_reasons: Vec<Option<Cow<'a, str>>>,
    pub(super) usages: Vec<Option<String>>,
    pub(super) stop_sequences: Vec<Option<&'a str>>,
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
            columns.ids.push(storable_text(message_id));
            // The bytes that later requests repeat. No statement reads a member of them.
            columns.contents.push(message.content.as_str());
            columns.models.push(optional(model.as_deref()));
            columns
                .stop_reasons
                .push(optional(message.stop_reason.as_ref().map(ModelStop::as_str)));
            columns.usages.push(usage);
            let sequence = message.stop_reason.as_ref().and_then(ModelStop::sequence);
            columns.stop_sequences.push(sequence);
        }
        Ok(columns)
    }
}

/// Planned calls.
pub(super) struct PlannedColumns<'a> {
    pub(super) ids: Vec<Cow<'a, str>>,
    pub(super) names: Vec<Cow<'a, str>>,
}

impl<'a> PlannedColumns<'a> {
    pub(super) fn of(planned: &'a [ToolCall]) -> Self {
        let column =
            |call: &'a ToolCall| (storable_text(&call.tool_use_id), storable_text(&call.name));
        let (ids, names) = planned.iter().map(column).unzip();
        Self { ids, names }
    }
}

/// Changed rows of the ledger.
#[derive(Default)]
pub(super) struct CallColumns<'a> {
    pub(super) ids: Vec<Cow<'a, str>>,
    pub(super) states: Vec<&'static str>,
    pub(super) results: Vec<Option<Cow<'a, str>>>,
    pub(super) executions: Vec<i32>,
    pub(super) hashes_before: Vec<Option<&'a [u8]>>,
    pub(super) hashes_after: Vec<Option<&'a [u8]>>,
    pub(super) change_paths: Vec<Option<Cow<'a, str>>>,
    pub(super) change_results: Vec<Option<Cow<'a, str>>>,
    pub(super) error_types: Vec<Option<&'static str>>,
    pub(super) awaits: Vec<Option<&'static str>>,
    pub(super) answer_ins: Vec<Option<f64>>,
    pub(super) input_hashes: Vec<Option<&'a [u8]>>,
    pub(super) sandboxes: Vec<Option<&'static str>>,
    pub(super) wait_reasons: Vec<Option<Cow<'a, str>>>,
    pub(super) diffs: Vec<Option<Cow<'a, str>>>,
    pub(super) sources: Vec<Option<String>>,
    pub(super) sub_agent_runs: Vec<Option<Uuid>>,
}

impl<'a> CallColumns<'a> {
    pub(super) fn of(records: &'a [CallRecord]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for record in records {
            columns.ids.push(storable_text(&record.tool_use_id));
            columns.states.push(record.state.as_str());
            columns.results.push(optional(record.result.as_deref()));
            columns.executions.push(i32::from(record.is_execution));
            let change = record.change.as_ref();
            columns.hashes_before.push(change.and_then(|change| change.before.as_deref()));
            columns.hashes_after.push(change.map(|change| change.after.as_slice()));
            columns.change_paths.push(optional(change.map(|change| change.path.as_str())));
            columns.change_results.push(optional(change.map(|change| change.result.as_str())));
            columns.error_types.push(record.error_type.map(ToolErrorType::as_str));
            let wait = record.wait.as_ref();
            columns.awaits.push(wait.map(|wait| wait.awaits.as_str()));
            columns.answer_ins.push(wait.map(|wait| wait.within.as_secs_f64()));
            columns.wait_reasons.push(optional(wait.and_then(|wait| wait.reason.as_deref())));
            columns.diffs.push(optional(wait.and_then(|wait| wait.diff.as_deref())));
            columns.input_hashes.push(record.input_hash.as_deref());
            columns.sandboxes.push(record.sandbox);
            let sources = Some(&record.sources).filter(|sources| !sources.is_empty());
            let sources = sources.map(storable_json_of).transpose();
            columns.sources.push(sources.map_err(unreadable("tool_calls", "sources"))?);
            columns.sub_agent_runs.push(record.sub_agent_run.map(RunId::as_uuid));
        }
        Ok(columns)
    }
}

fn optional(text: Option<&str>) -> Option<Cow<'_, str>> {
    text.map(storable_text)
}
