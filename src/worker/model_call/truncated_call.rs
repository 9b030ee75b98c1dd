//! A reply that was cut in the middle of a call is asked for once more, with a larger budget.

use std::time::Instant;

use crate::agent::{Step, history};
use crate::domain::output_budget::larger;
use crate::domain::session::Settings;
use crate::domain::tool::ToolChoice;
use crate::model::{Head, Reply};
use crate::store::step::StepCommit;
use crate::worker::model_call::previews::ReplyIds;
use crate::worker::run::driver::{Driver, RequestEnd, empty, millis};
use crate::worker::run::stop_cause::Halt;

impl Driver<'_> {
    /// The reply to take in, and when it was asked for: this one, or if it was cut in a call the
    /// next one.
    pub(in crate::worker) async fn widened(
        &mut self,
        reply: Reply,
        started: Instant,
        (choice, ids): (&ToolChoice, ReplyIds),
    ) -> Result<(Reply, Instant), Halt> {
        let Some((head, max_tokens)) = self.wider_head(&reply)? else {
            return Ok((reply, started));
        };
        self.set_aside(&reply, started).await?;
        let is_over = matches!(self.agent.step(), Step::Exhausted(_));
        let choice = if is_over { &ToolChoice::None } else { choice };
        let started = Instant::now();
        let reply = self.reply(&head, choice, Some(max_tokens), ids).await?;
        Ok((reply, started))
    }

    /// A head with a larger budget, where that may help and the run can pay for it.
    fn wider_head(&self, reply: &Reply) -> Result<Option<(Head, u32)>, Halt> {
        let is_cut = history::is_cut_in_a_call(&reply.content, &reply.stop)?;
        if !is_cut || !self.agent.affords_more_after(reply.usage) {
            return Ok(None);
        }
        let settings = &self.run.settings;
        let Some(max_tokens) = larger(&settings.model, settings.max_tokens) else {
            return Ok(None);
        };
        let settings = Settings { max_tokens, ..settings.clone() };
        let (parts, tools) = (&self.worker.parts, self.run.options.tools.as_deref());
        let head = parts.model.head(&settings, tools, parts.prompt_cache)?;
        Ok(Some((head, max_tokens)))
    }

    /// Nothing of the reply is kept but what it used.
    async fn set_aside(&mut self, reply: &Reply, started: Instant) -> Result<(), Halt> {
        let end = RequestEnd { duration_ms: millis(started), ..RequestEnd::of(reply) };
        let mut events = Vec::from_iter(self.end_request(&end));
        self.agent.spend(reply.usage);
        let request = self.answered(reply);
        self.announce_request(&mut events);
        let (usage, request) = (Some(reply.usage), request.as_ref());
        let step = StepCommit { events: &events, usage, request, ..empty() };
        self.store(&[], &step).await
    }
}
