//! The tool loop as a state machine. It is rebuilt from the messages of a run and never stored.

use crate::domain::limits::{LimitKind, Limits};
use crate::domain::message::{BadContent, Message, Role, View};
use crate::domain::price::Price;
use crate::domain::stop_reason::{ModelStop, Refusal, StopReason};
use crate::domain::tool::ToolCall;
use crate::domain::usage::{Spending, Usage};

/// Maximum number of times that a paused turn of a run is resumed.
const MAX_PAUSES: u32 = 10;

/// The limits that the loop can check from the messages alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Model requests that may be followed by tool calls.
    pub rounds: u32,
    /// Tokens of all requests together.
    pub tokens: Option<i64>,
    /// The limit of the cost of all requests, in micro-dollars, and the price of tokens.
    pub cost: Option<(i64, Price)>,
}

impl Bounds {
    /// The bounds of a run with these limits. Without a price the cost is not limited.
    pub fn new(limits: &Limits, price: Option<Price>) -> Self {
        Self {
            rounds: limits.rounds.unwrap_or(Limits::DEFAULT_ROUNDS),
            tokens: limits.tokens,
            cost: limits.cost.zip(price),
        }
    }

    /// The limit that this usage reaches.
    fn limit_of(&self, spent: &Usage, cost: i64) -> Option<LimitKind> {
        if self.tokens.is_some_and(|tokens| spent.total() >= tokens) {
            return Some(LimitKind::Tokens);
        }
        let is_over_cost = self.cost.is_some_and(|(limit, _)| cost >= limit);
        is_over_cost.then_some(LimitKind::Cost)
    }
}

/// The next action of the loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model. A forced tool choice holds for the first request only.
    CallModel {
        /// This is the first request of the run.
        is_first: bool,
    },
    /// Execute these calls and answer all of them in one message.
    CallTools(Vec<ToolCall>),
    /// A limit is reached: ask once more, with the tools defined but `tool_choice` set to none.
    Exhausted(LimitKind),
    /// The run is finished.
    Finish(Finish),
}

/// The end of a run by its own last reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// The reason.
    pub stop_reason: StopReason,
    /// The limit at which the last reply was requested.
    pub limited: Option<LimitKind>,
}

/// The loop of one run.
///
/// The caller pushes the messages of the run in order, from the client's message on, and can read the
/// next action at any point. A loop that is resumed from stored messages has the same next action as
/// the loop that received them one by one, so nothing else has to be stored.
#[derive(Debug, Clone)]
pub struct AgentLoop {
    bounds: Bounds,
    rounds: u32,
    pauses: u32,
    spent: Usage,
    /// The sum of the costs of the requests. The cost of their total usage would be rounded otherwise.
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

    /// A loop after the messages of a run, the first of which is its user message.
    pub fn resume(messages: &[Message], bounds: Bounds) -> Result<Self, BadContent> {
        let mut this = Self::new(bounds);
        for message in messages.iter().skip(1) {
            this.push(message)?;
        }
        Ok(this)
    }

    /// Adds a reply of the model, or the message with the results of its calls.
    pub fn push(&mut self, message: &Message) -> Result<(), BadContent> {
        match (message.role, &message.stop_reason) {
            (Role::User, _) => self.ask(),
            (Role::Assistant, stop) => {
                self.add_usage(message.usage);
                let unknown = ModelStop::Other(String::new());
                let stop = stop.as_ref().unwrap_or(&unknown);
                self.step = self.after_reply(message, stop)?;
            }
        }
        Ok(())
    }

    /// The next action.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// Ends the rounds at a limit that messages do not show, such as time.
    pub fn exhaust(&mut self, limit: LimitKind) {
        if matches!(self.step, Step::CallModel { .. }) {
            self.limit = Some(limit);
            self.step = Step::Exhausted(limit);
        }
    }

    /// True if the next reply must not be followed by tool calls.
    pub fn is_final(&self) -> bool {
        self.limit.is_some()
    }

    /// True if a reply that pauses, or that contains a summary of the conversation, is resumed.
    pub fn may_pause(&self) -> bool {
        self.pauses < MAX_PAUSES
    }

    /// Counts a request whose reply is not stored as a message, because it is requested again.
    pub fn add_usage(&mut self, usage: Usage) {
        self.spent += usage;
        if let Some((_, price)) = self.bounds.cost {
            self.cost = self.cost.saturating_add(price.cost(&usage));
        }
    }

    /// Sets the price of tokens from the next request on, which another model answers.
    pub fn set_price(&mut self, price: Option<Price>) {
        self.bounds.cost = self.bounds.cost.map(|(limit, before)| (limit, price.unwrap_or(before)));
    }

    /// Counts requests that no message shows, such as sampling requests of tools.
    pub fn add_sampling_usage(&mut self, usage: Usage) {
        self.add_usage(usage);
        if matches!(self.step, Step::CallModel { .. }) {
            self.ask();
        }
    }

    /// Counts the usage of sub-agents. It is part of the limits of the run, at prices of its own.
    pub fn add_sub_agent_usage(&mut self, spent: &Spending) {
        self.spent += spent.usage;
        self.cost = self.cost.saturating_add(spent.cost.unwrap_or(0));
        if matches!(self.step, Step::CallModel { .. }) {
            self.ask();
        }
    }

    /// The tokens and the micro-dollars that remain before a limit; none where there is no limit.
    pub fn remaining(&self) -> (Option<i64>, Option<i64>) {
        let tokens = self.bounds.tokens.map(|tokens| tokens - self.spent.total());
        (tokens, self.bounds.cost.map(|(limit, _)| limit - self.cost))
    }

    /// True if another request may follow one with this usage.
    pub fn allows_request_after(&self, usage: Usage) -> bool {
        let mut then = self.clone();
        then.add_usage(usage);
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
                // The model called a tool in place of the answer that a limit requires.
                let is_silent = self.is_final() && message.content.joined_text()?.trim().is_empty();
                if is_silent { unknown(stop) } else { StopReason::EndTurn }
            }
            ModelStop::PauseTurn | ModelStop::Compaction if self.may_pause() => {
                self.pauses += 1;
                self.ask();
                return Ok(self.step.clone());
            }
            ModelStop::EndTurn => StopReason::EndTurn,
            ModelStop::StopSequence(sequence) => {
                StopReason::StopSequence { stop_sequence: sequence.clone() }
            }
            ModelStop::MaxTokens => StopReason::MaxTokens,
            ModelStop::ModelContextWindowExceeded => StopReason::ModelContextWindowExceeded,
            ModelStop::Refusal => StopReason::Refusal(Refusal::default()),
            ModelStop::PauseTurn
            | ModelStop::Compaction
            | ModelStop::Interrupted
            | ModelStop::Other(_) => unknown(stop),
        };
        Ok(Step::Finish(Finish { stop_reason, limited: self.limit }))
    }
}

/// The end of a run for a reason of the model that does not end an answer.
fn unknown(stop: &ModelStop) -> StopReason {
    StopReason::Unknown { model_stop_reason: stop.as_str().to_owned() }
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
