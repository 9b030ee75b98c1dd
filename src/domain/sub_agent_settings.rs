//! The settings of a sub-agent's session, derived from its parent's.

use serde_json::value::{RawValue, to_raw_value};

use super::deferred_tools::with_listing;
use super::generation::Generation;
use super::limits::Limits;
use super::session::Settings;
use super::sub_agent::{GENERAL, Share, SubAgent, is_for_sub_agents};
use super::tool::{ToolChoice, defined_name};

/// The default system prompt of a sub-agent.
const SYSTEM: &str = "You are a sub-agent: another agent has given you one task, and waits for you. \
    It sees only your last message. Do the task with your tools, and do no more than it requires. \
    Then answer with everything that the other agent needs to know: what you found or did, where, \
    and what you could not do. Do not ask questions: they are not answered.";

impl Settings {
    /// Returns the sub-agent of this name, or the general one without a name.
    pub fn sub_agent(&self, name: Option<&str>) -> Option<SubAgent> {
        let name = name.unwrap_or(GENERAL);
        let named = self.sub_agents.iter().find(|agent| agent.name == name).cloned();
        named.or_else(|| (name == GENERAL).then(SubAgent::general))
    }

    /// Returns the names of all sub-agents.
    pub fn sub_agent_names(&self) -> Vec<&str> {
        let named = self.sub_agents.iter().map(|agent| agent.name.as_str());
        let is_general = |agent: &SubAgent| agent.name == GENERAL;
        let general = (!self.sub_agents.iter().any(is_general)).then_some(GENERAL);
        general.into_iter().chain(named).collect()
    }

    /// Returns the settings of a sub-agent's session: the parent's, changed by the sub-agent's
    /// definition and without those that apply only to the parent. The sub-agent has no tool that
    /// its parent does not have, and no wider limit.
    pub fn for_sub_agent(&self, agent: &SubAgent, share: Share) -> serde_json::Result<Self> {
        let mut settings = self.clone();
        settings.sub_agents.clear();
        settings.client_tools.clear();
        self.give_tools(agent, &mut settings)?;
        settings.system = agent.system.as_deref().unwrap_or(SYSTEM).into();
        settings.model_options.output_schema = None;
        // A forced call would be the sub-agent's first, whatever its task is.
        let choice = &mut settings.model_options.tool_choice;
        *choice = choice.take().map(|choice| ToolChoice::of_later_rounds(None, Some(&choice)));
        settings.stop_sequences.clear();
        settings.max_tokens = agent.max_tokens.unwrap_or(self.max_tokens);
        if let Some(model) = agent.model.as_ref().filter(|model| **model != self.model) {
            settings.model.clone_from(model);
            settings.provider.clone_from(&agent.provider);
            settings.fallback_models.clear();
            settings.price = agent.price;
            settings.set_tool_search(agent.tool_search);
            // The thinking settings were checked against the session's model only.
            settings.thinking = None;
            settings.model_options.effort = None;
            settings.model_options.generation = Generation::default();
        }
        settings.limits = Limits {
            rounds: agent.limits.rounds.or(self.limits.rounds),
            tokens: smaller_option(agent.limits.tokens, share.tokens),
            cost: smaller_option(agent.limits.cost, share.cost)
                .filter(|_| settings.price.is_some()),
            seconds: smaller_option(agent.limits.seconds, share.seconds),
        };
        settings.parent_budget = self.budget;
        settings.budget.tokens = self.budget.tokens.and(share.tokens);
        settings.budget.cost = self.budget.cost.and(share.cost);
        Ok(settings)
    }

    /// Gives a sub-agent its tools, and `ToolSearch` if one of them is deferred.
    fn give_tools(&self, agent: &SubAgent, settings: &mut Self) -> serde_json::Result<()> {
        let definitions: Vec<&RawValue> = serde_json::from_str(self.tools.get())?;
        let is_theirs = |name: &str| {
            let is_named =
                agent.tools.as_ref().is_none_or(|named| named.iter().any(|it| it == name));
            is_named && is_for_sub_agents(name) && !self.client_tools.iter().any(|it| it == name)
        };
        if let Some(mut deferred) = settings.deferred_tools.take() {
            deferred.names.retain(|name| is_theirs(name));
            settings.deferred_tools = Some(deferred).filter(|tools| !tools.names.is_empty());
        }
        let deferred = settings.deferred_tools.as_ref();
        let mut kept = Vec::new();
        for json in definitions {
            let Some(name) = defined_name(json) else { continue };
            if self.is_tool_search(&name) {
                let listed = deferred.map(|tools| with_listing(json, &tools.names)).transpose()?;
                kept.extend(listed);
            } else if is_theirs(&name) {
                kept.push(json.to_owned());
            }
        }
        settings.tools = to_raw_value(&kept)?;
        Ok(())
    }
}

fn smaller_option<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
