//! Budget reservations before a request. Without a budget the database is not queried.

use sqlx::PgConnection;

use super::ModelCalls;
use crate::domain::budget::{Estimate, MeasuredRequest};
use crate::domain::request::RequestForm;
use crate::model::Request;
use crate::store::budgets::{Reserved, of_session, reserve};
use crate::store::requests::{CountedRequest, counted};
use crate::worker::run::step_writer::StepWriter;
use crate::worker::run::stop_cause::StopCause;

impl ModelCalls<'_> {
    /// True if a budget applies to the next request.
    pub(super) fn needs_reservation(&self, writer: &StepWriter<'_>) -> bool {
        writer.is_budgeted() || !self.run.settings().budget.is_open()
    }

    /// Reserves the most that a request can use, in every budget that applies to it.
    pub(in crate::worker) async fn reserve(
        &self,
        writer: &StepWriter<'_>,
        request: &Request,
        form: &RequestForm,
    ) -> Result<(), StopCause> {
        self.reserve_bytes(writer, request.body.len(), form).await
    }

    /// Reserves the request in flight, which was sent before the commit of a step. The step has found
    /// a budget that was created meanwhile.
    pub(super) async fn reserve_late(&self, writer: &StepWriter<'_>) -> Result<(), StopCause> {
        match &self.in_flight {
            Some(request) => self.reserve_bytes(writer, request.body_length, &request.form).await,
            None => Ok(()),
        }
    }

    async fn reserve_bytes(
        &self,
        writer: &StepWriter<'_>,
        bytes: usize,
        form: &RequestForm,
    ) -> Result<(), StopCause> {
        if !self.needs_reservation(writer) {
            return Ok(());
        }
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_sub(form.unread);
        let pool = &self.run.services.pool;
        let reserve = |_| {
            pool.with(async |conn| {
                let estimate = self.estimate(conn, writer, bytes, form).await?;
                self.try_reserve(conn, writer.is_budgeted(), &estimate).await
            })
        };
        match Box::pin(self.run.retry(reserve)).await? {
            Reserved::Granted => Ok(()),
            Reserved::Refused(exceeded) => Err(StopCause::Budget(exceeded)),
            Reserved::Fenced => Err(StopCause::LeaseLost),
        }
    }

    /// The most that a request of this size can use.
    async fn estimate(
        &self,
        conn: &mut PgConnection,
        writer: &StepWriter<'_>,
        bytes: i64,
        form: &RequestForm,
    ) -> Result<Estimate, StopCause> {
        let settings = self.run.settings();
        let continues_history = form.question.is_none();
        let mut earlier = self.measured.filter(|_| continues_history);
        if earlier.is_none() && continues_history {
            // The first request of a run is estimated from the last request of the session.
            let last = counted(conn, self.run.session_id()).await?;
            earlier = last.and_then(|last| self.comparable(writer, last));
        }
        let max_tokens = form.max_tokens.unwrap_or(settings.max_tokens);
        let estimate = Estimate::new(bytes, max_tokens, settings.price, earlier);
        let may_compact = continues_history && settings.context.may_compact_within_reply();
        let estimate = if may_compact { estimate.doubled() } else { estimate };
        Ok(self.unfinished.added_to(estimate))
    }

    /// Checks the budget of the session first: that takes no lock.
    async fn try_reserve(
        &self,
        conn: &mut PgConnection,
        is_budgeted: bool,
        estimate: &Estimate,
    ) -> Result<Reserved, StopCause> {
        let (claim, settings) = (&self.run.claim, self.run.settings());
        let mut reserved = Reserved::Granted;
        if !settings.budget.is_open() {
            let used = of_session(conn, self.run.session_id(), settings.budget).await?;
            reserved = used.refuses(estimate).map_or(reserved, Reserved::Refused);
        }
        if let Some(parent) = claim.parent_session
            && !settings.parent_budget.is_open()
            && reserved == Reserved::Granted
        {
            // The share of a sub-agent was set when it started; its parent has used more since.
            let used = of_session(conn, parent, settings.parent_budget).await?;
            reserved = used.refuses(estimate).map_or(reserved, Reserved::Refused);
        }
        if is_budgeted && reserved == Reserved::Granted {
            reserved = reserve(conn, claim.fence, estimate).await?;
        }
        Ok(reserved)
    }

    /// The size of an earlier run's last request, if this request begins with the same content: only
    /// then are its tokens a part of those of this request.
    fn comparable(&self, writer: &StepWriter<'_>, last: CountedRequest) -> Option<MeasuredRequest> {
        let CountedRequest { mut measured, form, prefix, model } = last;
        measured.bytes = measured.bytes.saturating_sub(form.unread);
        let view = writer.transcript.view();
        let has_same_prefix = prefix.is_some_and(|prefix| {
            prefix.tools == self.sent_tools && prefix.system == self.head_hashes.system
        }) && form.sent_changes == view.changes.len()
            && form.compacted == view.compaction.as_ref().map(|summary| summary.up_to)
            && form.chat_completions == self.run.model().server.client.dialect()
            && form.responses == self.run.model().server.client.is_responses()
            // Each model has its own tokens.
            && model == self.run.settings().model;
        has_same_prefix.then_some(measured)
    }
}
