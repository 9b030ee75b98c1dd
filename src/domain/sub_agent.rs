//! Sub-agents: runs in sessions of their own that calls of a run start and wait for.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::ids::{RunId, SessionId};
use super::price::Price;
use super::run::{Limits, Outcome, RunStatus, StopReason};
use super::session::Settings;
use super::usage::Usage;

/// The tool that starts one.
pub const TASK: &str = "Task";
/// The name of the one that every session with the tool has.
pub const GENERAL: &str = "general";
/// The tools that no sub-agent has: it starts none itself, and its plan is nobody's to approve.
const WITHHELD: [&str; 2] = [TASK, "ExitPlanMode"];

/// What a sub-agent is told of itself where nobody has said more.
const SYSTEM: &str = "You are a sub-agent: another agent has given you one task, and waits for you. \
    It sees nothing of your work but your last message. Do the task with your tools, and do no more \
    than it asks for. Then answer with all that the other agent needs to know: what you found or \
    did, where, and what you could not do. Do not ask anything back: nobody would answer.";

/// A sub-agent that a session may start, pinned with it. What it does not say is as in the session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubAgent {
    /// The name by which the model asks for it.
    pub name: String,
    /// What the model is told of it.
    pub description: String,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the tokens of that model cost, if the operator said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The output budget of one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Its tools, of those that the session has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The limits of its run.
    #[serde(default)]
    pub limits: Limits,
}

impl SubAgent {
    /// The one that a session has of itself.
    pub fn general() -> Self {
        Self {
            name: GENERAL.to_owned(),
            description: "does any task, with the tools that you have.".to_owned(),
            system: None,
            model: None,
            price: None,
            max_tokens: None,
            tools: None,
            limits: Limits::default(),
        }
    }
}

/// What a call of the tool asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// What it is about, for people.
    pub description: String,
    /// All that the sub-agent is told.
    pub prompt: String,
    /// Which one.
    pub agent: Option<String>,
}

/// What one sub-agent may take of what its parent has left. What is not set does not bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Of the session's budget, and of the run's limits.
    pub tokens: Option<i64>,
    /// The same in micro-dollars.
    pub cost: Option<i64>,
    /// The time that the run has.
    pub seconds: Option<u32>,
}

impl Settings {
    /// The sub-agent of this name; the general one where none is named.
    pub fn sub_agent(&self, name: Option<&str>) -> Option<SubAgent> {
        let name = name.unwrap_or(GENERAL);
        let named = self.sub_agents.iter().find(|agent| agent.name == name).cloned();
        named.or_else(|| (name == GENERAL).then(SubAgent::general))
    }

    /// The names of those that there are.
    pub fn sub_agent_names(&self) -> Vec<&str> {
        let named = self.sub_agents.iter().map(|agent| agent.name.as_str());
        let is_general = |agent: &SubAgent| agent.name == GENERAL;
        let general = (!self.sub_agents.iter().any(is_general)).then_some(GENERAL);
        general.into_iter().chain(named).collect()
    }

    /// What is pinned for a sub-agent: as here, but for what it says, and without what is for the
    /// parent alone. It has no tool that its parent does not have, and no wider limit.
    pub fn for_sub_agent(&self, agent: &SubAgent, share: Share) -> serde_json::Result<Self> {
        let mut settings = self.clone();
        settings.sub_agents.clear();
        settings.client_tools.clear();
        settings.tools = self.tools_of(agent)?;
        settings.system = agent.system.as_deref().unwrap_or(SYSTEM).into();
        settings.model_options.output_schema = None;
        settings.stop_sequences.clear();
        settings.max_tokens = agent.max_tokens.unwrap_or(self.max_tokens);
        if let Some(model) = agent.model.as_ref().filter(|model| **model != self.model) {
            settings.model.clone_from(model);
            settings.price = agent.price;
            // They fit the model for which they were checked.
            settings.thinking = None;
            settings.model_options.effort = None;
        }
        settings.limits = Limits {
            rounds: agent.limits.rounds.or(self.limits.rounds),
            tokens: lesser(agent.limits.tokens, share.tokens),
            cost: lesser(agent.limits.cost, share.cost).filter(|_| settings.price.is_some()),
            seconds: lesser(agent.limits.seconds, share.seconds),
        };
        settings.parent_budget = self.budget;
        settings.budget.tokens = self.budget.tokens.and(share.tokens);
        settings.budget.cost = self.budget.cost.and(share.cost);
        Ok(settings)
    }

    fn tools_of(&self, agent: &SubAgent) -> serde_json::Result<Box<RawValue>> {
        let definitions: Vec<&RawValue> = serde_json::from_str(self.tools.get())?;
        let is_theirs = |name: &str| {
            let is_named =
                agent.tools.as_ref().is_none_or(|named| named.iter().any(|it| it == name));
            is_named && is_for_sub_agents(name) && !self.client_tools.iter().any(|it| it == name)
        };
        let kept =
            definitions.into_iter().filter(|raw| name_of(raw).is_some_and(|it| is_theirs(&it)));
        to_raw_value(&kept.collect::<Vec<_>>())
    }
}

/// Whether a sub-agent may have a tool, if its session has it.
pub fn is_for_sub_agents(tool: &str) -> bool {
    !WITHHELD.contains(&tool)
}

fn name_of(definition: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    serde_json::from_str::<Named>(definition.get()).ok().map(|tool| tool.name)
}

fn lesser<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// A sub-agent that was started: which session and run are its own, and of which call it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The call of the parent.
    pub tool_use_id: String,
    /// Its session.
    pub session_id: SessionId,
    /// Its run.
    pub run_id: RunId,
}

/// The call that a session's sub-agent works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Parent {
    /// The session that asked for it.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// The call.
    pub tool_use_id: String,
}

/// A sub-agent as the run tells of it that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct StartedAgent {
    /// The call that started it.
    pub tool_use_id: String,
    /// Its session, where all that it did is to be read.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// Its run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// Where that run stands.
    pub status: RunStatus,
    /// What it used. The run's own sums do not have it.
    pub usage: Usage,
    /// What that cost, in micro-dollars; absent where no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<i64>,
}

/// What a sub-agent left, in the words of its parent's model.
pub fn report(status: RunStatus, outcome: Option<&Outcome>) -> Result<String, String> {
    let Some(outcome) = outcome else {
        return Err("The sub-agent ended without an outcome.".to_owned());
    };
    if status == RunStatus::Cancelled {
        return Err(
            "The sub-agent was cancelled before it was done. What it did stays done.".into()
        );
    }
    if let Some(error) = &outcome.error {
        return Err(format!("The sub-agent failed: {}", error.message));
    }
    let text = outcome.output_text.trim();
    let cut = match outcome.stop_reason {
        StopReason::Refusal(_) => return Err("The sub-agent declined the task.".to_owned()),
        _ if text.is_empty() => return Err("The sub-agent ended without an answer.".to_owned()),
        StopReason::MaxTokens | StopReason::ModelContextWindowExceeded => {
            "\n\n[The sub-agent's answer is cut off here.]"
        }
        _ if outcome.limited.is_some() => {
            "\n\n[The sub-agent reached a limit: its work may not be complete.]"
        }
        StopReason::EndTurn
        | StopReason::StopSequence
        | StopReason::Unknown { .. }
        | StopReason::RetriesExhausted
        | StopReason::BudgetExceeded { .. }
        | StopReason::Cancelled
        | StopReason::RequiresAction { .. } => "",
    };
    Ok(format!("{}{cut}", outcome.output_text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::budget::Budget;
    use crate::domain::run::{ErrorType, LimitKind, Refusal, RunError};

    fn settings() -> Settings {
        let tools =
            json!([{"name": "read_file"}, {"name": "Task"}, {"name": "mine"}, {"name": "Bash"}]);
        Settings {
            model: "big".into(),
            max_tokens: 1000,
            tools: to_raw_value(&tools).unwrap(),
            client_tools: vec!["mine".into()],
            budget: Budget { tokens: Some(5000), cost: None },
            limits: Limits { rounds: Some(7), ..Limits::default() },
            sub_agents: vec![SubAgent {
                name: "scout".into(),
                model: Some("small".into()),
                tools: Some(vec!["read_file".into(), "Task".into(), "mine".into()]),
                limits: Limits { tokens: Some(900), ..Limits::default() },
                ..SubAgent::general()
            }],
            ..Settings::default()
        }
    }

    #[test]
    fn a_sub_agent_has_no_tool_that_starts_others_or_that_the_client_runs() {
        let settings = settings();
        let general = settings.sub_agent(None).unwrap();
        let child = settings.for_sub_agent(&general, Share::default()).unwrap();
        assert_eq!(child.tool_names(), ["read_file", "Bash"]);
        let scout = settings.sub_agent(Some("scout")).unwrap();
        let child = settings.for_sub_agent(&scout, Share::default()).unwrap();
        assert_eq!(child.tool_names(), ["read_file"]);
        assert_eq!(child.model, "small");
        assert!(child.sub_agents.is_empty() && child.client_tools.is_empty());
    }

    #[test]
    fn a_share_is_the_limit_unless_there_is_a_lower_one() {
        let settings = settings();
        let share = Share { tokens: Some(1200), cost: None, seconds: Some(30) };
        let general = settings.sub_agent(Some(GENERAL)).unwrap();
        let child = settings.for_sub_agent(&general, share).unwrap();
        assert_eq!((child.limits.tokens, child.limits.rounds), (Some(1200), Some(7)));
        assert_eq!((child.budget.tokens, child.limits.seconds), (Some(1200), Some(30)));
        let scout = settings.sub_agent(Some("scout")).unwrap();
        assert_eq!(settings.for_sub_agent(&scout, share).unwrap().limits.tokens, Some(900));
    }

    #[test]
    fn only_what_a_session_names_is_there_besides_the_general_one() {
        let settings = settings();
        assert_eq!(settings.sub_agent_names(), [GENERAL, "scout"]);
        assert!(settings.sub_agent(Some("other")).is_none());
        assert_eq!(Settings::default().sub_agent_names(), [GENERAL]);
    }

    #[test]
    fn what_a_sub_agent_left_is_told_as_what_it_is() {
        let outcome = |stop_reason, text: &str| Outcome {
            stop_reason,
            limited: None,
            output_text: text.to_owned(),
            error: None,
            output: None,
        };
        let told = |outcome: Outcome| report(RunStatus::Completed, Some(&outcome));
        assert_eq!(told(outcome(StopReason::EndTurn, "Four.")), Ok("Four.".to_owned()));
        assert!(told(outcome(StopReason::EndTurn, " ")).is_err());
        assert!(told(outcome(StopReason::Refusal(Refusal::default()), "No")).is_err());
        assert!(told(outcome(StopReason::MaxTokens, "Fo")).unwrap().ends_with("cut off here.]"));
        let limited =
            Outcome { limited: Some(LimitKind::Rounds), ..outcome(StopReason::EndTurn, "So far.") };
        assert!(told(limited).unwrap().contains("may not be complete"));
        let error = RunError { r#type: ErrorType::BillingError, message: "no money".to_owned() };
        let failed = Outcome { error: Some(error), ..outcome(StopReason::RetriesExhausted, "") };
        let told = report(RunStatus::Failed, Some(&failed));
        assert_eq!(told, Err("The sub-agent failed: no money".to_owned()));
        assert!(report(RunStatus::Cancelled, Some(&outcome(StopReason::Cancelled, ""))).is_err());
    }
}
