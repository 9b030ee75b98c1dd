//! Sub-agents: runs in their own sessions that tool calls of a parent run start and wait for.

use serde::{Deserialize, Serialize};

use super::ids::{RunId, SessionId};
use super::limits::Limits;
use super::outcome::Outcome;
use super::price::Price;
use super::run_status::RunStatus;
use super::stop_reason::StopReason;
use super::usage::Usage;

/// The name of the tool that starts a sub-agent.
pub const TASK: &str = "Task";
/// The name of the sub-agent that every session with the tool has.
pub const GENERAL: &str = "general";
/// The tools that no sub-agent has: it starts no further sub-agents, and no one approves its plan.
const WITHHELD: [&str; 2] = [TASK, "ExitPlanMode"];

/// A sub-agent that a session can start, pinned with the session. Unset fields inherit the
/// session's values.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubAgent {
    /// The name that the model uses.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The name of that model's provider; none for the default provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Box<str>>,
    /// The price of that model's tokens, if the operator configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// True if that model supports tool search, for sessions with deferred tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tool_search: bool,
    /// The output budget of one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Its tools, a subset of the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The limits of its run.
    #[serde(default)]
    pub limits: Limits,
}

impl SubAgent {
    /// The general sub-agent, which copies the session.
    pub fn general() -> Self {
        Self {
            name: GENERAL.to_owned(),
            description: "does any task, with the tools that you have.".to_owned(),
            system: None,
            model: None,
            provider: None,
            price: None,
            tool_search: false,
            max_tokens: None,
            tools: None,
            limits: Limits::default(),
        }
    }
}

/// The input of a call of the `Task` tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// A short description for people.
    pub description: String,
    /// The task, which is all that the sub-agent receives.
    pub prompt: String,
    /// The name of the sub-agent.
    pub agent: Option<String>,
}

/// The part of its parent's remaining limits that one sub-agent may use. An unset field does not
/// apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Tokens, from the session's budget and the run's limits.
    pub tokens: Option<i64>,
    /// Cost in micro-dollars, from the same.
    pub cost: Option<i64>,
    /// The run's remaining time in seconds.
    pub seconds: Option<u32>,
}

/// Returns `true` if a sub-agent may have this tool when its session has it.
pub fn is_for_sub_agents(tool: &str) -> bool {
    !WITHHELD.contains(&tool)
}

/// A sub-agent that was started: its session, its run and the call that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedSubAgent {
    /// The call of the parent.
    pub tool_use_id: String,
    /// Its session.
    pub session_id: SessionId,
    /// Its run.
    pub run_id: RunId,
}

/// The parent's call that a sub-agent session works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Parent {
    /// The parent session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The parent run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// The call.
    pub tool_use_id: String,
}

/// A sub-agent as listed in the run that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = StartedAgent)]
pub struct SubAgentSummary {
    /// The call that started it.
    pub tool_use_id: String,
    /// Its session, which has the complete history.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// Its run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// The state of that run.
    pub status: RunStatus,
    /// Its token usage. The sums of the parent run do not include it.
    pub usage: Usage,
    /// Its cost in micro-dollars; absent when no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<i64>,
}

/// The result of a sub-agent, as text for the parent's model.
pub fn report(status: RunStatus, outcome: Option<&Outcome>) -> Result<String, String> {
    let Some(outcome) = outcome else {
        return Err("The sub-agent ended without an outcome.".to_owned());
    };
    if status == RunStatus::Cancelled {
        return Err(
            "The sub-agent was cancelled before it finished. Its effects up to then remain.".into(),
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
        | StopReason::StopSequence { .. }
        | StopReason::Unknown { .. }
        | StopReason::RetriesExhausted
        | StopReason::Error
        | StopReason::BudgetExceeded { .. }
        | StopReason::Cancelled
        | StopReason::RequiresAction { .. } => "",
    };
    Ok(format!("{}{cut}", outcome.output_text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::domain::budget::Budget;
    use crate::domain::limits::LimitKind;
    use crate::domain::outcome::{ErrorType, RunError};
    use crate::domain::session::Settings;
    use crate::domain::stop_reason::Refusal;

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
    fn a_session_has_its_own_sub_agents_and_the_general_one() {
        let settings = settings();
        assert_eq!(settings.sub_agent_names(), [GENERAL, "scout"]);
        assert!(settings.sub_agent(Some("other")).is_none());
        assert_eq!(Settings::default().sub_agent_names(), [GENERAL]);
    }

    #[test]
    fn the_report_of_a_sub_agent_matches_its_outcome() {
        let outcome = |stop_reason, text: &str| Outcome {
            stop_reason,
            limited: None,
            output_text: text.to_owned(),
            error: None,
            output: None,
        };
        let reported = |outcome: Outcome| report(RunStatus::Completed, Some(&outcome));
        assert_eq!(reported(outcome(StopReason::EndTurn, "Four.")), Ok("Four.".to_owned()));
        assert!(reported(outcome(StopReason::EndTurn, " ")).is_err());
        assert!(reported(outcome(StopReason::Refusal(Refusal::default()), "No")).is_err());
        assert!(
            reported(outcome(StopReason::MaxTokens, "Fo")).unwrap().ends_with("cut off here.]")
        );
        let limited =
            Outcome { limited: Some(LimitKind::Rounds), ..outcome(StopReason::EndTurn, "So far.") };
        assert!(reported(limited).unwrap().contains("may not be complete"));
        let error = RunError::new(ErrorType::BillingError, "no money");
        let failed = Outcome { error: Some(error), ..outcome(StopReason::RetriesExhausted, "") };
        let reported = report(RunStatus::Failed, Some(&failed));
        assert_eq!(reported, Err("The sub-agent failed: no money".to_owned()));
        assert!(report(RunStatus::Cancelled, Some(&outcome(StopReason::Cancelled, ""))).is_err());
    }
}
