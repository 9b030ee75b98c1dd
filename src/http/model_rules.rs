//! What sessions may ask of models, by the operator's word and by what is known of each.

use std::sync::Arc;

use crate::domain::context::SUMMARY_TOKENS;
use crate::domain::model::{Models, Refused};
use crate::domain::output_schema::{Broken, broken};
use crate::domain::provider::Provider;
use crate::domain::server_tool::ServerTool;
use crate::domain::session::Settings;
use crate::http::error::FieldError;
use crate::http::session_context::SessionContext;

/// Names of beta features that one session may have.
const MAX_BETAS: usize = 16;
/// Bytes of a schema for answers.
const MAX_SCHEMA: usize = 32 * 1024;
/// Characters of the name that the model's side is told.
const MAX_USER_ID: usize = 256;

/// What sessions may ask of models.
#[derive(Debug, Clone, Default)]
pub struct ModelRules {
    /// What each model accepts.
    pub models: Arc<Models>,
    /// The tools on the model's side that sessions may have.
    pub server_tools: Vec<ServerTool>,
    /// The beta features that sessions may name; all when absent.
    pub betas: Option<Vec<String>>,
    /// The tokens at which histories are summed up before a run, where sessions say nothing; 0 for
    /// never.
    pub compact_at: Option<i64>,
    /// Whether the server refuses schemas with members that need not be there.
    pub refuses_optional: bool,
}

impl ModelRules {
    /// The tokens at which the history of a new session is summed up before a run, if ever.
    pub(in crate::http) fn compact_at(&self, model: &str, asked: &SessionContext) -> Option<i64> {
        if asked.compact_at.is_some() {
            return asked.compact_at.filter(|at| *at > 0);
        }
        let known = self.models.find(model);
        let is_had = self.models.provider() == Provider::Anthropic
            && known.compaction != Some(false)
            && !asked.compacts_by_itself();
        let most = known.max_input_tokens.and_then(|window| i64::try_from(window / 5 * 4).ok());
        let at = self.compact_at.map(|at| most.map_or(at, |most| at.min(most))).or(most);
        at.filter(|at| is_had && *at > 0)
    }

    /// The output budget of a summary, where the model gives less than is asked for otherwise.
    pub(in crate::http) fn compact_max_tokens(&self, model: &str) -> Option<u32> {
        self.models.find(model).max_tokens.filter(|most| *most < SUMMARY_TOKENS)
    }

    /// The output budget of a session that names none: the usual one, or what the model gives at
    /// most.
    pub(in crate::http) fn max_tokens(&self, model: &str, usual: u32) -> u32 {
        self.models.find(model).max_tokens.map_or(usual, |most| most.min(usual))
    }

    /// What is wrong with the settings of a new session.
    pub(in crate::http) fn problems(&self, settings: &Settings) -> Vec<FieldError> {
        let refusals = self.models.find(&settings.model).refusals(settings);
        let mut errors: Vec<FieldError> = refusals
            .into_iter()
            .map(|Refused { pointer, reason }| error(pointer, reason))
            .collect();
        errors.extend(self.beta_problems(&settings.model_options.betas));
        let user = settings.model_options.user_id.as_deref();
        let is_odd = |user: &str| {
            user.is_empty()
                || user.chars().count() > MAX_USER_ID
                || user.chars().any(char::is_control)
        };
        if user.is_some_and(is_odd) {
            let reason = format!("is not 1 to {MAX_USER_ID} characters without control characters");
            errors.push(error("/model_metadata/user_id", reason));
        }
        errors.extend(self.schema_problem(settings));
        errors
    }

    fn beta_problems(&self, names: &[String]) -> Vec<FieldError> {
        if names.len() > MAX_BETAS {
            return vec![error("/betas", format!("has more than {MAX_BETAS} names"))];
        }
        let mut errors = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let reason = if !is_beta(name) {
                "is not 1 to 64 of a-z, 0-9 and '-'"
            } else if self.betas.as_ref().is_some_and(|allowed| !allowed.contains(name)) {
                "is not a beta feature that the operator allows"
            } else if names.iter().take(index).any(|before| before == name) {
                "is there already"
            } else {
                continue;
            };
            errors.push(error(&format!("/betas/{index}"), reason));
        }
        errors
    }

    fn schema_problem(&self, settings: &Settings) -> Option<FieldError> {
        let schema = settings.model_options.output_schema.as_ref()?;
        if schema.get().len() > MAX_SCHEMA {
            return Some(error("/output_schema", format!("is larger than {MAX_SCHEMA} bytes")));
        }
        match serde_json::from_str(schema.get()) {
            Ok(schema) => {
                let Broken { pointer, reason } = broken(&schema, !self.refuses_optional)?;
                Some(error(&format!("/output_schema{pointer}"), reason))
            }
            Err(cause) => Some(error("/output_schema", cause.to_string())),
        }
    }
}

/// Whether this can be the name of a beta feature: it becomes a part of a header.
pub fn is_beta(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(is_legal)
}

fn error(pointer: &str, message: impl Into<String>) -> FieldError {
    FieldError { pointer: pointer.to_owned(), message: message.into() }
}
