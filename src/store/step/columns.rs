//! A step as the columns of its statement.

use uuid::Uuid;

use super::{CallRecord, NewMessage, StepCommit};
use crate::domain::ids::RunId;
use crate::domain::message::Role;
use crate::domain::run::RunStatus;
use crate::domain::tool_error::ToolErrorType;
use crate::store::{StoreError, unreadable};

#[derive(Default)]
pub(super) struct Settle {
    pub(super) status: Option<&'static str>,
    pub(super) outcome: Option<String>,
    pub(super) stop_reason: Option<String>,
}

impl Settle {
    pub(super) fn of(step: &StepCommit<'_>) -> Result<Self, StoreError> {
        let json = |column| unreadable::<serde_json::Error>("runs", column);
        if let Some(stop_reason) = step.waits {
            return Ok(Self {
                status: Some(RunStatus::RequiresAction.as_str()),
                outcome: None,
                stop_reason: Some(serde_json::to_string(stop_reason).map_err(json("stop_reason"))?),
            });
        }
        let Some((status, outcome)) = step.settles else {
            return Ok(Self::default());
        };
        Ok(Self {
            status: Some(status.as_str()),
            outcome: Some(serde_json::to_string(outcome).map_err(json("outcome"))?),
            stop_reason: Some(
                serde_json::to_string(&outcome.stop_reason).map_err(json("stop_reason"))?,
            ),
        })
    }
}

#[derive(Default)]
pub(super) struct MessageColumns {
    pub(super) roles: Vec<String>,
    pub(super) ids: Vec<String>,
    pub(super) contents: Vec<String>,
    pub(super) models: Vec<Option<String>>,
    pub(super) stop_reasons: Vec<Option<String>>,
    pub(super) usages: Vec<Option<String>>,
}

impl MessageColumns {
    pub(super) fn of(messages: &[NewMessage]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for NewMessage { message_id, model, message } in messages {
            let usage = match message.role {
                Role::User => None,
                Role::Assistant => Some(
                    serde_json::to_string(&message.usage)
                        .map_err(unreadable("messages", "usage"))?,
                ),
            };
            columns.roles.push(message.role.as_str().to_owned());
            columns.ids.push(message_id.clone());
            columns.contents.push(message.content.as_str().to_owned());
            columns.models.push(model.clone());
            columns
                .stop_reasons
                .push(message.stop_reason.as_ref().map(|stop| stop.as_str().to_owned()));
            columns.usages.push(usage);
        }
        Ok(columns)
    }
}

#[derive(Default)]
pub(super) struct RecordColumns {
    pub(super) ids: Vec<String>,
    pub(super) states: Vec<String>,
    pub(super) results: Vec<Option<String>>,
    pub(super) executions: Vec<i32>,
    pub(super) hashes_before: Vec<Option<Vec<u8>>>,
    pub(super) hashes_after: Vec<Option<Vec<u8>>>,
    pub(super) change_paths: Vec<Option<String>>,
    pub(super) change_results: Vec<Option<String>>,
    pub(super) error_types: Vec<Option<&'static str>>,
    pub(super) awaits: Vec<Option<&'static str>>,
    pub(super) answer_ins: Vec<Option<f64>>,
    pub(super) input_hashes: Vec<Option<Vec<u8>>>,
    pub(super) sandboxes: Vec<Option<&'static str>>,
    pub(super) wait_reasons: Vec<Option<String>>,
    pub(super) diffs: Vec<Option<String>>,
    pub(super) sources: Vec<Option<String>>,
    pub(super) child_runs: Vec<Option<Uuid>>,
}

impl RecordColumns {
    pub(super) fn of(records: &[CallRecord]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for record in records {
            columns.ids.push(record.tool_use_id.clone());
            columns.states.push(record.state.as_str().to_owned());
            columns.results.push(record.result.clone());
            columns.executions.push(i32::from(record.is_execution));
            let change = record.change.as_ref();
            columns.hashes_before.push(change.and_then(|change| change.before.clone()));
            columns.hashes_after.push(change.map(|change| change.after.clone()));
            columns.change_paths.push(change.map(|change| change.path.clone()));
            columns.change_results.push(change.map(|change| change.result.clone()));
            columns.error_types.push(record.error_type.map(ToolErrorType::as_str));
            let wait = record.wait.as_ref();
            columns.awaits.push(wait.map(|wait| wait.awaits.as_str()));
            columns.answer_ins.push(wait.map(|wait| wait.within.as_secs_f64()));
            columns.wait_reasons.push(wait.and_then(|wait| wait.reason.clone()));
            columns.diffs.push(wait.and_then(|wait| wait.diff.clone()));
            columns.input_hashes.push(record.input_hash.clone());
            columns.sandboxes.push(record.sandbox);
            let sources = Some(&record.sources).filter(|sources| !sources.is_empty());
            let sources = sources.map(serde_json::to_string).transpose();
            columns.sources.push(sources.map_err(unreadable("tool_calls", "sources"))?);
            columns.child_runs.push(record.child_run.map(RunId::as_uuid));
        }
        Ok(columns)
    }
}
