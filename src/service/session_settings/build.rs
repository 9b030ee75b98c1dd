//! Building the pinned settings of a session from a request.

use serde_json::value::RawValue;

use super::context::SessionContext;
use super::deferred_tools::pin_deferred;
use super::fallback_models::pin_fallbacks;
use super::members::workspace;
use super::model_rules::ModelRules;
use super::permissions::{check_mode, check_rules};
use super::request::CreateSession;
use super::sub_agents::pin_sub_agents;
use super::unstorable_text;
use crate::domain::budget::Budget;
use crate::domain::context::Context;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::limits::Limits;
use crate::domain::model::ModelRef;
use crate::domain::price::Price;
use crate::domain::session::Settings;
use crate::service::error::Error;
use crate::service::session_tools::{SessionTools, session_tools};
use crate::service::state::{Defaults, Service};
use crate::store::sessions::NewSession;

/// Checked settings of a session that has not been stored.
pub(in crate::service) struct NewSettings {
    external_id: Option<String>,
    title: Option<String>,
    metadata: Box<RawValue>,
    pub(in crate::service) settings: Settings,
    workspace: Option<String>,
}

impl NewSettings {
    /// Checks a request, and fills absent members with the operator's defaults. The request's
    /// agent, if any, has to be resolved before.
    pub(in crate::service) async fn build(
        service: &Service,
        mut request: CreateSession,
    ) -> Result<Self, Error> {
        request.check()?;
        let (external_id, title) = (request.external_id.take(), request.title.take());
        let metadata = request.metadata.take().filter(|metadata| metadata.get() != "null");
        let metadata = match metadata {
            Some(metadata) => metadata,
            None => RawValue::from_string("{}".to_owned()).map_err(Error::internal)?,
        };
        let workspace = workspace(service, request.workspace.take()).await?;
        let settings = settings(service, request)?;
        Ok(Self { external_id, title, metadata, settings, workspace })
    }

    /// The row of the session.
    pub(in crate::service) fn row(&self, id: SessionId, tenant_id: TenantId) -> NewSession<'_> {
        NewSession {
            id,
            tenant_id,
            external_id: self.external_id.as_deref(),
            title: self.title.as_deref(),
            metadata: &self.metadata,
            settings: &self.settings,
            workspace: self.workspace.as_deref(),
            idempotency_key: None,
        }
    }
}

fn context(
    rules: &ModelRules,
    model: ModelRef<'_>,
    context: SessionContext,
    max_tokens: u32,
) -> Result<Context, Error> {
    let compact_at = rules.compact_at(model, &context);
    let compact_max_tokens = compact_at.and_then(|_| rules.compact_max_tokens(model, max_tokens));
    Ok(Context { compact_max_tokens, ..context.into_context(compact_at)? })
}

fn settings(service: &Service, mut request: CreateSession) -> Result<Settings, Error> {
    let defaults: &Defaults = &service.defaults;
    let model_options = request.take_model_options();
    check_mode(service, request.permission_mode)?;
    let permissions = request.permissions.unwrap_or_default();
    check_rules(service, &permissions)?;
    let rules = &defaults.model_rules;
    let (model, provider) = model_of(defaults, request.model)?;
    let model_ref = ModelRef::pinned(&model, provider.as_deref());
    let SessionTools { definitions: tools, client_tools, described_tools } =
        session_tools(service, model_ref, request.tools.as_deref(), defaults.tools.as_deref())?;
    let offered_tools = service.tools.tools_of_same_servers(&tools);
    let limits = request.limits.or(&defaults.limits);
    let price = price_of(defaults, &model, &limits, request.budget)?;
    let system = match request.system {
        Some(system) => system.into_prompt()?,
        None => defaults.system.as_str().into(),
    };
    let default_max_tokens = rules.max_tokens(model_ref, defaults.max_tokens);
    let max_tokens = request.max_tokens.unwrap_or(default_max_tokens);
    let context = context(rules, model_ref, request.context, max_tokens)?;
    let mut settings = Settings {
        provider,
        fallback_models: Vec::new(),
        model,
        max_tokens,
        system,
        tools,
        thinking: request.thinking,
        stop_sequences: request.stop_sequences.unwrap_or_default(),
        model_options: Box::new(model_options),
        context: Box::new(context),
        limits,
        budget: request.budget,
        parent_budget: Budget::default(),
        price,
        permission_mode: request.permission_mode,
        permissions,
        offered_tools,
        client_tools,
        described_tools,
        deferred_tools: None,
        dispatch: request.dispatch.unwrap_or_default(),
        interrupted_replies: request.interrupted_replies.unwrap_or(defaults.interrupted_replies),
        generate_title: request.generate_title.unwrap_or(defaults.generate_title),
        sub_agents: Vec::new(),
        user: request.user,
        created_by: None,
        task: None,
        agent: None,
        environment: request.environment,
    };
    pin_deferred(service, &request.deferred_tools.unwrap_or_default(), &mut settings)?;
    let fallbacks = request.fallback_models.unwrap_or_default();
    pin_sub_agents(service, request.sub_agents.unwrap_or_default(), &mut settings)?;
    let mut errors = unstorable_text::problems(&settings)?;
    errors.extend(rules.problems(&settings));
    Error::if_any(errors)?;
    pin_fallbacks(service, fallbacks, &mut settings)?;
    Ok(settings)
}

/// The model of a session, and its provider; none for the default provider.
fn model_of(
    defaults: &Defaults,
    model: Option<String>,
) -> Result<(String, Option<Box<str>>), Error> {
    let rules = &defaults.model_rules;
    let Some(model) = model else {
        let provider = rules.models.locate(&defaults.model).provider.map(Box::from);
        return Ok((defaults.model.clone(), provider));
    };
    let provider = rules.provider_of(&model, "/model");
    let provider = provider.map_err(|error| Error::Validation(vec![error]))?;
    Ok((model, provider))
}

/// The price of a model, which a limit of the cost requires.
fn price_of(
    defaults: &Defaults,
    model: &str,
    limits: &Limits,
    budget: Budget,
) -> Result<Option<Price>, Error> {
    let price = defaults.prices.current().get(model).copied();
    let costs = [("/limits/cost", limits.cost), ("/budget/cost", budget.cost)];
    if let (None, Some((pointer, _))) = (price, costs.iter().find(|(_, cost)| cost.is_some())) {
        let message = format!(
            "cannot be enforced: the operator has set no price for {model}; prices are set with \
             --prices"
        );
        return Err(Error::field(pointer, message));
    }
    Ok(price)
}
