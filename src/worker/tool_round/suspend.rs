//! A run whose calls wait for somebody: it is put down, in nobody's hands, until they are answered.

use crate::domain::event::{EventBody, NewEvent};
use crate::domain::permission::Awaits;
use crate::domain::run::StopReason;
use crate::domain::tool::{CallState, ToolCall};
use crate::faults::{self, Point};
use crate::store::step::{CallRecord, NewWait, StepCommit};
use crate::tools::without_nul;
use crate::tools::workspace::hash;
use crate::worker::run::driver::Driver;
use crate::worker::run::stop_cause::Halt;
use crate::worker::tool_round::plan::{Answered, Hold, Round};

impl Driver<'_> {
    /// Puts the run down. What has ended so far is stored with it.
    pub(in crate::worker) async fn suspend(
        &mut self,
        mut round: Round<'_>,
    ) -> Result<Answered, Halt> {
        let held = round.held();
        let event_ids = held.iter().map(|(call, _)| call.tool_use_id.clone()).collect();
        let stop_reason = StopReason::RequiresAction { event_ids };
        let mut records = std::mem::take(&mut round.answered.records);
        for (call, hold) in held {
            if !round.is_known_to_wait(call) {
                records.push(self.waiting(call, hold).await);
            }
        }
        let mut events = std::mem::take(&mut round.answered.events);
        events.push(NewEvent::new(&EventBody::StatusIdle {
            stop_reason: stop_reason.clone(),
            limited: None,
            output_error: None,
        }));
        let step = StepCommit {
            recorded_message_seq: self.last_message_seq(),
            recorded: &records,
            events: &events,
            notes: &round.answered.notes,
            waits: Some(&stop_reason),
            ..StepCommit::default()
        };
        self.store(&[], &step).await?;
        faults::point(Point::Suspended).await;
        Err(Halt::Waiting)
    }

    /// What the ledger keeps of a call from the moment that it waits.
    async fn waiting(&self, call: &ToolCall, hold: Hold) -> CallRecord {
        let Hold { awaits, reason } = hold;
        let diff = match awaits {
            Awaits::Approval => self.diff(call).await,
            Awaits::Client => None,
        };
        let (reason, diff) = (reason.map(without_nul), diff.map(without_nul));
        let within = self.worker.parts.policy.answer_within;
        CallRecord {
            wait: Some(NewWait { awaits, within, reason, diff }),
            input_hash: Some(hash(call.input.get().as_bytes())),
            ..CallRecord::new(&call.tool_use_id, CallState::Planned)
        }
    }

    /// What a call would change of a file, for who decides on it.
    async fn diff(&self, call: &ToolCall) -> Option<String> {
        let context = self.context.of_call(&call.tool_use_id);
        self.worker.parts.tools.diff(&context, &call.name, &call.input).await
    }
}
