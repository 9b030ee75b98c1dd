//! Rules for the model settings of sessions: the operator's rules and the known limits of models.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::context::SessionContext;
use crate::domain::context::SUMMARY_TOKENS;
use crate::domain::model::{ModelRef, Models};
use crate::domain::output_schema::{UnsupportedPart, unsupported_part};
use crate::domain::provider::Provider;
use crate::domain::run_options::RunOptions;
use crate::domain::server_tool::{ServerTool, has_cited_server_tool};
use crate::domain::session::Settings;
use crate::domain::settings_check::UnsupportedSetting;
use crate::domain::strict_tools::{self, has_strict};
use crate::service::content::refuses_citations;
use crate::service::error::FieldError;
use crate::service::server_tool::refusal_by;

/// Maximum number of beta features of a session.
const MAX_BETAS: usize = 16;
/// Maximum size of an output schema, in bytes.
const MAX_SCHEMA: usize = 32 * 1024;
/// Maximum length of the user id that is sent to the model's API, in characters.
const MAX_USER_ID: usize = 256;

/// Rules for the model settings of sessions.
#[derive(Debug, Clone, Default)]
pub struct ModelRules {
    /// The capabilities of each known model.
    pub models: Arc<Models>,
    /// The server tools that sessions may have: tools that the model's API executes.
    pub server_tools: Vec<ServerTool>,
    /// The beta features that sessions may name; all when absent.
    pub betas: Option<Vec<String>>,
    /// The default compaction threshold of sessions, in tokens; 0 disables compaction.
    pub compact_at: Option<i64>,
}

impl ModelRules {
    /// The provider of a model that a request names at this pointer; none for the default provider.
    pub(in crate::service) fn provider_of(
        &self,
        model: &str,
        pointer: &str,
    ) -> Result<Option<Box<str>>, FieldError> {
        let check = self.models.check_provider(model);
        check.map_err(|unknown| FieldError::new(pointer, unknown.to_string()))?;
        Ok(self.models.locate(model).provider.map(Box::from))
    }

    /// The compaction threshold of a new session, in tokens; none without compaction.
    pub(super) fn compact_at(&self, model: ModelRef<'_>, context: &SessionContext) -> Option<i64> {
        if context.compact_at.is_some() {
            return context.compact_at.filter(|at| *at > 0);
        }
        self.default_compact_at(model, context.has_compact_edit())
    }

    /// The compaction threshold of a session with these settings after its model has changed: the
    /// default of the other model, unless the client has given another one.
    pub(super) fn compact_at_after(&self, model: ModelRef<'_>, before: &Settings) -> Option<i64> {
        let compacts = before.context.may_compact_within_reply();
        let is_default =
            before.context.compact_at == self.default_compact_at(before.model_ref(), compacts);
        if is_default {
            self.default_compact_at(model, compacts)
        } else {
            before.context.compact_at
        }
    }

    fn default_compact_at(&self, model: ModelRef<'_>, has_compact_edit: bool) -> Option<i64> {
        let known = self.models.find(model);
        let is_supported = known.compaction != Some(false) && !has_compact_edit;
        let most = |window: u64| {
            let reply = if self.counts_reply(model) { known.max_tokens.unwrap_or(0) } else { 0 };
            (window / 5 * 4).min(window.saturating_sub(reply.into()).max(window / 2))
        };
        let max = known.max_input_tokens.map(most).and_then(|most| i64::try_from(most).ok());
        let at = self.compact_at.map(|at| max.map_or(at, |max| at.min(max))).or(max);
        at.filter(|at| is_supported && *at > 0)
    }

    /// The output limit of a summary, where the model needs one below the usual one. If its window is not
    /// known, it is the output limit of the session, which fits into it.
    pub(super) fn compact_max_tokens(&self, model: ModelRef<'_>, of_session: u32) -> Option<u32> {
        let known = self.models.find(model);
        let of_window = self.counts_reply(model).then(|| {
            let part = |window: u64| u32::try_from(window / 8).unwrap_or(u32::MAX);
            known.max_input_tokens.map_or(of_session, part)
        });
        let max = [known.max_tokens, of_window].into_iter().flatten().min();
        max.filter(|max| *max < SUMMARY_TOKENS)
    }

    /// Returns `true` if the model's server refuses a request whose prompt and output limit together exceed
    /// the window of the model, as OpenAI and vLLM do.
    fn counts_reply(&self, model: ModelRef<'_>) -> bool {
        self.models.protocol(model) != Provider::Anthropic
    }

    /// The output limit of a session that specifies none: the default, or the model's own limit if
    /// that is lower.
    pub(super) fn max_tokens(&self, model: ModelRef<'_>, default: u32) -> u32 {
        self.models.find(model).max_tokens.map_or(default, |max| max.min(default))
    }

    /// The settings of a new session that are not valid.
    pub(super) fn problems(&self, settings: &Settings) -> Vec<FieldError> {
        let mut errors = self.model_problems(settings);
        errors.extend(self.beta_problems(&settings.model_options.betas));
        let user = settings.model_options.user_id.as_deref();
        let is_invalid = |user: &str| {
            user.is_empty()
                || user.chars().count() > MAX_USER_ID
                || user.chars().any(char::is_control)
        };
        if user.is_some_and(is_invalid) {
            let message =
                format!("is not 1 to {MAX_USER_ID} characters without control characters");
            errors.push(FieldError::new("/model_metadata/user_id", message));
        }
        errors
    }

    /// The settings that the model, or the protocol of its server, does not accept.
    pub(super) fn model_problems(&self, settings: &Settings) -> Vec<FieldError> {
        let refusals = self.models.find(settings.model_ref()).refusals(settings);
        let mut errors: Vec<FieldError> = refusals
            .into_iter()
            .map(|UnsupportedSetting { pointer, reason }| FieldError::new(pointer, reason))
            .collect();
        errors.extend(self.generation_problems(settings));
        errors.extend(self.schema_problem(settings));
        errors.extend(self.strict_problem(settings, None));
        errors.extend(self.choice_problem(settings));
        errors.extend(self.citations_problem(settings));
        let refusal = refusal_by(self.models.platform(settings.model_ref()), &settings.tools);
        errors.extend(refusal.map(|reason| FieldError::new("/tools", reason)));
        errors
    }

    /// The parameters of generation that the model or the protocol of its server does not accept.
    pub(in crate::service) fn generation_problems(&self, settings: &Settings) -> Vec<FieldError> {
        let known = self.models.find(settings.model_ref());
        let refusals = known
            .generation_refusals(settings, self.models.protocol(settings.model_ref()))
            .into_iter();
        refusals
            .map(|UnsupportedSetting { pointer, reason }| FieldError::new(pointer, reason))
            .collect()
    }

    fn beta_problems(&self, names: &[String]) -> Vec<FieldError> {
        if names.len() > MAX_BETAS {
            return vec![FieldError::new("/betas", format!("has more than {MAX_BETAS} names"))];
        }
        let mut errors = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let message = if !is_beta(name) {
                "is not 1 to 64 of a-z, 0-9 and '-'"
            } else if self.betas.as_ref().is_some_and(|allowed| !allowed.contains(name)) {
                "is not a beta feature that the operator allows"
            } else if names.iter().take(index).any(|before| before == name) {
                "repeats an earlier name"
            } else {
                continue;
            };
            errors.push(FieldError::new(format!("/betas/{index}"), message));
        }
        errors
    }

    fn choice_problem(&self, settings: &Settings) -> Option<FieldError> {
        let choice = settings.model_options.tool_choice.as_ref()?;
        let model = self.models.find(settings.model_ref());
        let reason = settings.refuses(&model, choice, &RunOptions::default())?;
        Some(FieldError::new("/tool_choice", reason))
    }

    /// The reason why the model's server refuses the strict tools of a session, or those of a message
    /// that brings tools of its own.
    pub(in crate::service) fn strict_problem(
        &self,
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
    ) -> Option<FieldError> {
        let model = settings.model_ref();
        if tools_of_run.is_some_and(has_strict)
            && self.models.find(model).structured_outputs == Some(false)
        {
            let reason = format!("has strict tools, which are not supported by {}", settings.model);
            return Some(FieldError::new("/tools", reason));
        }
        let definitions = [Some(settings.tools.as_ref()), tools_of_run].into_iter().flatten();
        let output = settings.model_options.output_schema.as_deref();
        let takes_optional = !self.models.refuses_optional(model);
        let reason = strict_tools::problem(definitions, output, takes_optional)?;
        Some(FieldError::new("/tools", reason))
    }

    /// The Messages API refuses an output schema together with citations, which `web_fetch` can enable.
    fn citations_problem(&self, settings: &Settings) -> Option<FieldError> {
        let has_cited =
            refuses_citations(&self.models, settings) && has_cited_server_tool(&settings.tools);
        let reason = "cannot be combined with the option citations of web_fetch";
        has_cited.then(|| FieldError::new("/output_schema", reason))
    }

    fn schema_problem(&self, settings: &Settings) -> Option<FieldError> {
        let schema = settings.model_options.output_schema.as_ref()?;
        if schema.get().len() > MAX_SCHEMA {
            let message = format!("is larger than {MAX_SCHEMA} bytes");
            return Some(FieldError::new("/output_schema", message));
        }
        let refuses_optional = self.models.refuses_optional(settings.model_ref());
        match serde_json::from_str(schema.get()) {
            Ok(schema) => {
                let UnsupportedPart { pointer, reason } =
                    unsupported_part(&schema, !refuses_optional)?;
                Some(FieldError::new(format!("/output_schema{pointer}"), reason))
            }
            Err(cause) => Some(FieldError::new("/output_schema", cause.to_string())),
        }
    }
}

/// Returns true if the text is a valid name of a beta feature. Names are sent in a header.
pub fn is_beta(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(is_legal)
}
