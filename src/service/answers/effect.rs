//! The effect of an answer on its run.

use sqlx::PgConnection;

use crate::domain::event::{Frame, NewEvent};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run::Run;
use crate::faults::{self, Point};
use crate::service::error::Error;
use crate::service::lookup::find_run;
use crate::service::state::Service;
use crate::service::transaction::in_transaction;
use crate::store::decisions::{LockedCall, plan_wake, report_wait};
use crate::store::events::{EventSpan, append, find_answers};

/// An answered run.
#[derive(Debug)]
pub(crate) struct AnsweredRun {
    /// The run, after the answer.
    pub(crate) run: Run,
    /// True if an earlier request gave the same answer.
    pub(crate) is_repeated: bool,
    /// The events of the answer, without a report of calls that still wait. None if the call has a
    /// default answer, which no event of the client reports.
    pub(crate) events: Option<EventSpan>,
}

/// The run that an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(in crate::service) struct RecordedAnswer {
    pub(in crate::service) run_id: RunId,
    pub(in crate::service) events: Option<EventSpan>,
    /// True if an earlier request gave the same answer.
    pub(in crate::service) is_repeated: bool,
}

/// The effect of an answer, in a transaction that is not committed yet.
#[derive(Debug)]
pub(in crate::service) struct AnswerEffect {
    run_id: RunId,
    events: Option<EventSpan>,
    frames: Vec<Frame>,
    /// True if no other call of the run waits, so that the run can continue.
    resumes_run: bool,
    is_repeated: bool,
}

impl AnswerEffect {
    /// An answer that was given before and changes nothing.
    pub(super) async fn repeated(
        conn: &mut PgConnection,
        session_id: SessionId,
        run_id: RunId,
        tool_use_ids: &[String],
    ) -> Result<Self, Error> {
        let events = find_answers(conn, session_id, run_id, tool_use_ids).await?;
        Ok(Self { run_id, events, frames: Vec::new(), resumes_run: false, is_repeated: true })
    }

    /// Appends the events of an answer, and plans that the run continues if no other call waits.
    pub(super) async fn record(
        conn: &mut PgConnection,
        call: &LockedCall,
        events: &[NewEvent],
    ) -> Result<Self, Error> {
        let frames = append(conn, call.session_id, Some(call.run_id), events).await?;
        let resumes_run = plan_wake(conn, call).await?;
        let events = EventSpan::of(&frames);
        Ok(Self { run_id: call.run_id, events, frames, resumes_run, is_repeated: false })
    }

    /// Reports the calls that the run still awaits after a new answer, if there are any. Called after
    /// the last answer of a transaction, so that a client that returns several answers gets one
    /// report.
    pub(in crate::service) async fn report_wait(
        &mut self,
        conn: &mut PgConnection,
        session_id: SessionId,
    ) -> Result<(), Error> {
        if !self.resumes_run && !self.is_repeated {
            self.frames.extend(report_wait(conn, session_id, self.run_id).await?);
        }
        Ok(())
    }

    /// Returns true if no earlier request gave the answer.
    pub(in crate::service) const fn is_new(&self) -> bool {
        !self.is_repeated
    }

    /// Publishes the events, and announces the run if it continues. Called after the commit.
    pub(in crate::service) async fn publish(
        self,
        service: &Service,
        session_id: SessionId,
    ) -> RecordedAnswer {
        if self.resumes_run {
            faults::point(Point::Decided).await;
        }
        service.bus.publish(session_id, self.frames);
        if self.resumes_run {
            service.bus.announce_work();
        }
        RecordedAnswer { run_id: self.run_id, events: self.events, is_repeated: self.is_repeated }
    }
}

/// Records an answer in a transaction of its own, publishes it, and reads the run.
pub(super) async fn answer(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    record: impl AsyncFnOnce(&mut PgConnection) -> Result<AnswerEffect, Error>,
) -> Result<AnsweredRun, Error> {
    let work = async |conn: &mut PgConnection| {
        let mut effect = record(conn).await?;
        effect.report_wait(conn, session_id).await?;
        Ok(effect)
    };
    let effect = in_transaction(service, tenant, work).await?;
    let RecordedAnswer { run_id, events, is_repeated } = effect.publish(service, session_id).await;
    let run = find_run(service, tenant, session_id, run_id).await?;
    Ok(AnsweredRun { run, is_repeated, events })
}
