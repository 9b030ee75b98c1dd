//! Whether the next request may be sent. Without a budget nobody is asked.

use crate::domain::budget::{Estimate, Measured};
use crate::domain::request::RequestForm;
use crate::model::Request;
use crate::store::budgets::{Reserved, of_session, reserve};
use crate::store::requests::{Counted, counted};
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::Driver;
use crate::worker::run::stop_cause::Halt;

impl Driver<'_> {
    /// Reserves what a request may take at most, of every budget that holds for it.
    pub(in crate::worker) async fn reserve(
        &mut self,
        request: &Request,
        form: &RequestForm,
    ) -> Result<(), Halt> {
        let settings = &self.run.settings;
        if !self.is_budgeted && settings.budget.is_open() {
            return Ok(());
        }
        let bytes = i64::try_from(request.body.len()).unwrap_or(i64::MAX);
        let mut patience = Patience::default();
        loop {
            match in_time(self.try_reserve(bytes, form)).await {
                Ok(Reserved::Granted) => return Ok(()),
                Ok(Reserved::Refused(exceeded)) => return Err(Halt::Budget(exceeded)),
                Ok(Reserved::Fenced) => return Err(Halt::LeaseLost),
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }

    /// The session's own budget comes first: it takes no lock.
    async fn try_reserve(&self, bytes: i64, form: &RequestForm) -> Result<Reserved, Halt> {
        let settings = &self.run.settings;
        let mut conn = self.worker.parts.pool.acquire().await?;
        let carries_on = form.question.is_none();
        let mut earlier = self.measured.filter(|_| carries_on);
        if earlier.is_none() && carries_on {
            // The first request of a run goes by those of the runs before it.
            let before = counted(&mut conn, self.session_id()).await?;
            earlier = before.and_then(|before| self.measured_before(before));
        }
        let max_tokens = form.max_tokens.unwrap_or(settings.max_tokens);
        let mut estimate = Estimate::new(bytes, max_tokens, settings.price, earlier);
        if carries_on && settings.context.sums_up_within() {
            estimate = estimate.twice();
        }
        let mut reserved = Reserved::Granted;
        if !settings.budget.is_open() {
            let standing = of_session(&mut conn, self.session_id(), settings.budget).await?;
            reserved = standing.refuses(&estimate).map_or(reserved, Reserved::Refused);
        }
        if let Some(parent) = self.run.parent_session
            && !settings.parent_budget.is_open()
            && reserved == Reserved::Granted
        {
            // Its own share was cut when it began, and its parent has gone on since.
            let standing = of_session(&mut conn, parent, settings.parent_budget).await?;
            reserved = standing.refuses(&estimate).map_or(reserved, Reserved::Refused);
        }
        if self.is_budgeted && reserved == Reserved::Granted {
            reserved = reserve(&mut conn, self.run.fence, &estimate).await?;
        }
        conn.give_back();
        Ok(reserved)
    }

    /// What an earlier run's last request says of this one, if this one begins as that one did:
    /// only then are its tokens among those of this one.
    fn measured_before(&self, before: Counted) -> Option<Measured> {
        let Counted { measured, form, prefix } = before;
        let view = self.transcript.view();
        let begins_so = prefix.is_some_and(|prefix| {
            prefix.tools == self.head.tools && prefix.system == self.head.system
        }) && form.sent_changes == view.changes.len()
            && form.compacted == view.compaction.as_ref().map(|summary| summary.up_to)
            && form.chat_completions == self.worker.parts.model.dialect();
        begins_so.then_some(measured)
    }
}
