//! The tool loop as a state machine that is folded from messages and never stored.

use crate::domain::message::{BadContent, Message, Role, View};
use crate::domain::price::Price;
use crate::domain::run::{LimitKind, Limits, ModelStop, Refusal, StopReason};
use crate::domain::tool::ToolCall;
use crate::domain::usage::{Spent, Usage};

/// Resumptions of a paused turn before the run is given up.
const MAX_PAUSES: u32 = 10;

/// The limits that the loop itself can tell from the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Model requests that may be followed by tool calls.
    pub rounds: u32,
    /// Tokens of all requests together.
    pub tokens: Option<i64>,
    /// Micro-dollars for all requests together, and what tokens cost.
    pub cost: Option<(i64, Price)>,
}

impl Bounds {
    /// The bounds of a run with these limits. Without a price there is no cost to bound.
    pub fn new(limits: &Limits, price: Option<Price>) -> Self {
        Self {
            rounds: limits.rounds.unwrap_or(Limits::DEFAULT_ROUNDS),
            tokens: limits.tokens,
            cost: limits.cost.zip(price),
        }
    }

    /// The limit that so much reaches.
    fn limit_of(&self, spent: &Usage, cost: i64) -> Option<LimitKind> {
        if self.tokens.is_some_and(|tokens| spent.total() >= tokens) {
            return Some(LimitKind::Tokens);
        }
        let is_dear = self.cost.is_some_and(|(limit, _)| cost >= limit);
        is_dear.then_some(LimitKind::Cost)
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model. A forced tool choice holds for the first request only.
    CallModel {
        /// Whether this is the first request of the run.
        is_first: bool,
    },
    /// Run these calls and answer all of them in one message.
    CallTools(Vec<ToolCall>),
    /// A limit is reached: ask once more, with the tools shown and their use forbidden.
    Exhausted(LimitKind),
    /// Done.
    Finish(Finish),
}

/// How the agent settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// Why.
    pub stop_reason: StopReason,
    /// The limit at which the final answer was asked for.
    pub limited: Option<LimitKind>,
}

/// The loop of one run.
///
/// Feed it the messages of the run in order, from the client's message on; ask it for the next
/// step at any point. Resuming from stored messages gives the same step as having lived through
/// them, which is why nothing else has to be stored.
#[derive(Debug, Clone)]
pub struct AgentLoop {
    bounds: Bounds,
    rounds: u32,
    pauses: u32,
    spent: Usage,
    /// The cost of each request, added up: a sum of usage would be rounded in another way.
    cost: i64,
    limit: Option<LimitKind>,
    step: Step,
}

impl AgentLoop {
    /// A loop before the first request of a run.
    pub fn new(bounds: Bounds) -> Self {
        let step = Step::CallModel { is_first: true };
        let spent = Usage::default();
        let mut this = Self { bounds, rounds: 0, pauses: 0, spent, cost: 0, limit: None, step };
        this.ask();
        this
    }

    /// A loop that has seen the messages of a run, its user message first.
    pub fn resume(messages: &[Message], bounds: Bounds) -> Result<Self, BadContent> {
        let mut this = Self::new(bounds);
        for message in messages.iter().skip(1) {
            this.push(message)?;
        }
        Ok(this)
    }

    /// Takes in a reply of the model, or the message with the results of its calls.
    pub fn push(&mut self, message: &Message) -> Result<(), BadContent> {
        match (message.role, &message.stop_reason) {
            (Role::User, _) => self.ask(),
            (Role::Assistant, stop) => {
                self.spend(message.usage);
                let unsaid = ModelStop::Other(String::new());
                let stop = stop.as_ref().unwrap_or(&unsaid);
                self.step = self.after_reply(message, stop)?;
            }
        }
        Ok(())
    }

    /// What to do next.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// Ends the rounds now, for a limit that messages do not show, such as time.
    pub fn exhaust(&mut self, limit: LimitKind) {
        if matches!(self.step, Step::CallModel { .. }) {
            self.limit = Some(limit);
            self.step = Step::Exhausted(limit);
        }
    }

    /// Whether the next reply must not be followed by tool calls.
    pub fn is_final(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether a reply that pauses, or sums the conversation up, would be resumed.
    pub fn may_pause(&self) -> bool {
        self.pauses < MAX_PAUSES
    }

    /// Counts a request whose reply is no message, because it is asked for again.
    pub fn spend(&mut self, usage: Usage) {
        self.spent += usage;
        if let Some((_, price)) = self.bounds.cost {
            self.cost = self.cost.saturating_add(price.cost(&usage));
        }
    }

    /// Counts what no message shows at all, because tools asked the model for it.
    pub fn spend_besides(&mut self, usage: Usage) {
        self.spend(usage);
        if matches!(self.step, Step::CallModel { .. }) {
            self.ask();
        }
    }

    /// Counts what sub-agents used: a part of what the run may use, at prices of their own.
    pub fn spend_for_others(&mut self, spent: &Spent) {
        self.spent += spent.usage;
        self.cost = self.cost.saturating_add(spent.cost.unwrap_or(0));
        if matches!(self.step, Step::CallModel { .. }) {
            self.ask();
        }
    }

    /// The tokens and the micro-dollars that are left before a limit; none where none binds.
    pub fn left(&self) -> (Option<i64>, Option<i64>) {
        let tokens = self.bounds.tokens.map(|tokens| tokens - self.spent.total());
        (tokens, self.bounds.cost.map(|(limit, _)| limit - self.cost))
    }

    /// Whether another request may follow one that used so much.
    pub fn affords_more_after(&self, usage: Usage) -> bool {
        let mut then = self.clone();
        then.spend(usage);
        !self.is_final() && then.bounds.limit_of(&then.spent, then.cost).is_none()
    }

    fn ask(&mut self) {
        if self.rounds >= self.bounds.rounds {
            self.limit = Some(LimitKind::Rounds);
        } else if let Some(limit) = self.bounds.limit_of(&self.spent, self.cost) {
            self.limit = Some(limit);
        }
        self.step = match self.limit {
            Some(limit) => Step::Exhausted(limit),
            None => Step::CallModel { is_first: self.rounds + self.pauses == 0 },
        };
    }

    fn after_reply(&mut self, message: &Message, stop: &ModelStop) -> Result<Step, BadContent> {
        let stop_reason = match stop {
            ModelStop::ToolUse => {
                self.rounds += 1;
                let calls = if self.is_final() { Vec::new() } else { client_calls(message)? };
                if !calls.is_empty() {
                    return Ok(Step::CallTools(calls));
                }
                StopReason::EndTurn
            }
            ModelStop::PauseTurn | ModelStop::Compaction if self.may_pause() => {
                self.pauses += 1;
                self.ask();
                return Ok(self.step.clone());
            }
            ModelStop::EndTurn => StopReason::EndTurn,
            ModelStop::StopSequence => StopReason::StopSequence,
            ModelStop::MaxTokens => StopReason::MaxTokens,
            ModelStop::ModelContextWindowExceeded => StopReason::ModelContextWindowExceeded,
            ModelStop::Refusal => StopReason::Refusal(Refusal::default()),
            ModelStop::PauseTurn | ModelStop::Compaction | ModelStop::Other(_) => {
                StopReason::Unknown { model_stop_reason: stop.as_str().to_owned() }
            }
        };
        Ok(Step::Finish(Finish { stop_reason, limited: self.limit }))
    }
}

fn client_calls(message: &Message) -> Result<Vec<ToolCall>, BadContent> {
    let blocks = message.content.blocks()?;
    Ok(blocks
        .iter()
        .filter_map(|block| match &block.view {
            View::ToolUse(call) => Some(ToolCall::from(call)),
            View::Text(_)
            | View::Thinking(_)
            | View::RedactedThinking
            | View::ToolResult { .. }
            | View::ServerToolUse { .. }
            | View::Other { .. } => None,
        })
        .collect())
}

#[cfg(test)]
mod tests;
