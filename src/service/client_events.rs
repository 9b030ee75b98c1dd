//! Several events of a client in one request: interrupts, decisions and results in one transaction,
//! then a message.

use sqlx::PgConnection;

use super::answers::{
    AnswerEffect, ApprovalDecision, DecideCall, ParsedResult, ResultSet, check_for_model,
};
use super::cancel::{StopRequest, list_open};
use super::error::Error;
use super::messages::{MessagePost, PostMessage, PostedRun};
use super::state::Service;
use super::transaction::in_transaction;
use crate::domain::call_end::RunEnd;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::store::events::EventSpan;
use crate::store::runs::lock_live;
use crate::store::sessions::last_seq;

/// One or more events before the message.
#[derive(Debug)]
pub(crate) enum EventStep {
    /// Stops all runs of the session.
    Interrupt,
    /// Decides on a call.
    Confirm {
        /// A JSON pointer to the event.
        pointer: String,
        /// The model's own id of the call.
        tool_use_id: String,
        /// The decision.
        decision: ApprovalDecision,
    },
    /// Consecutive results.
    Results(Vec<ParsedResult>),
}

/// The events of one request.
#[derive(Debug)]
pub(crate) struct PostEvents {
    /// The tenant.
    pub(crate) tenant: TenantId,
    /// The session.
    pub(crate) session_id: SessionId,
    /// The events before the message.
    pub(crate) steps: Vec<EventStep>,
    /// The message, which is the last event.
    pub(crate) message: Option<PostMessage>,
    /// A JSON pointer to the last event.
    pub(crate) last_pointer: String,
}

/// Events that are being applied.
#[derive(Debug)]
pub(crate) struct ClientEvents<'a> {
    service: &'a Service,
    tenant: TenantId,
    session_id: SessionId,
    steps: &'a [EventStep],
    post: Option<MessagePost<'a>>,
    last_pointer: &'a str,
}

/// The result of one event.
#[derive(Debug, Clone)]
pub(crate) struct EventResult {
    /// The runs that the event concerns.
    pub(crate) run_ids: Vec<RunId>,
    /// True if an earlier request had the same effect.
    pub(crate) is_repeated: bool,
    /// The events that were stored for it, unless an earlier request had the same effect.
    pub(crate) events: Option<EventSpan>,
}

/// The effect of a step, in a transaction that is not committed yet.
enum StepEffect {
    Stopped(Vec<StopRequest>),
    Answered {
        effect: Box<AnswerEffect>,
        /// The number of events that the step stands for.
        events: usize,
    },
}

impl<'a> ClientEvents<'a> {
    /// Prepares events to be applied.
    pub(crate) fn new(service: &'a Service, request: &'a PostEvents) -> Result<Self, Error> {
        let PostEvents { tenant, session_id, steps, message, last_pointer } = request;
        let post =
            message.as_ref().map(|message| MessagePost::new(service, message)).transpose()?;
        let (tenant, session_id) = (*tenant, *session_id);
        Ok(Self { service, tenant, session_id, steps, post, last_pointer })
    }

    /// Applies the events before the message, all of them or none; none if the request was accepted
    /// before, together with its message.
    pub(crate) async fn apply_steps(&self) -> Result<Option<Vec<EventResult>>, Error> {
        self.check().await?;
        if self.steps.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let work = async |conn: &mut PgConnection| self.apply_in(conn).await;
        let Some(effects) = in_transaction(self.service, self.tenant, work).await? else {
            return Ok(None);
        };
        let mut applied = Vec::new();
        for effect in effects {
            effect.publish(self.service, self.session_id, &mut applied).await;
        }
        Ok(Some(applied))
    }

    /// Posts the message, if there is one. Called after the events before it were applied.
    pub(crate) async fn post_message(&self) -> Result<Option<PostedRun>, Error> {
        match &self.post {
            Some(post) => Ok(Some(Box::pin(post.post()).await?)),
            None => Ok(None),
        }
    }

    /// Checks everything that can be checked before an event is applied.
    async fn check(&self) -> Result<(), Error> {
        for step in self.steps {
            if let EventStep::Results(results) = step {
                check_for_model(self.service, self.tenant, self.session_id, results).await?;
            }
        }
        match &self.post {
            Some(post) => {
                let checked = post.check_for_session().await;
                checked.map(drop).map_err(|error| error.under(self.last_pointer))
            }
            None => Ok(()),
        }
    }

    async fn apply_in(&self, conn: &mut PgConnection) -> Result<Option<Vec<StepEffect>>, Error> {
        // The lock keeps other messages out: a request must not interrupt the run of its own message,
        // when it is sent twice at once.
        lock_live(conn, self.tenant, self.session_id).await?;
        let missing = || Error::SessionNotFound(self.session_id.to_string());
        last_seq(conn, self.tenant, self.session_id).await?.ok_or_else(missing)?;
        if let Some(post) = &self.post
            && post.is_repeated(conn).await?
        {
            return Ok(None);
        }
        let mut effects = Vec::new();
        for step in self.steps {
            effects.push(self.apply_step(conn, step).await?);
        }
        if let Some(effect) = effects.iter_mut().rev().find_map(StepEffect::new_answer) {
            effect.report_wait(conn, self.session_id).await?;
        }
        Ok(Some(effects))
    }

    async fn apply_step(
        &self,
        conn: &mut PgConnection,
        step: &EventStep,
    ) -> Result<StepEffect, Error> {
        let (service, tenant, session_id) = (self.service, self.tenant, self.session_id);
        match step {
            EventStep::Interrupt => {
                let mut stops = Vec::new();
                for run_id in list_open(conn, tenant, session_id).await? {
                    stops.push(
                        StopRequest::make(conn, tenant, session_id, run_id, RunEnd::Client).await?,
                    );
                }
                Ok(StepEffect::Stopped(stops))
            }
            EventStep::Confirm { pointer, tool_use_id, decision } => {
                let call = DecideCall { service, tenant, session_id, tool_use_id, decision };
                let effect = call.record(conn).await.map_err(|error| error.under(pointer))?;
                Ok(StepEffect::Answered { effect: Box::new(effect), events: 1 })
            }
            EventStep::Results(results) => {
                let set = ResultSet { service, tenant, session_id, results, pointer: "/events" };
                let effect = Box::new(set.record(conn).await?);
                Ok(StepEffect::Answered { effect, events: results.len() })
            }
        }
    }
}

impl StepEffect {
    /// The answer of the step, unless an earlier request gave it.
    fn new_answer(&mut self) -> Option<&mut AnswerEffect> {
        match self {
            Self::Answered { effect, .. } => Some(&mut **effect).filter(|effect| effect.is_new()),
            Self::Stopped(_) => None,
        }
    }

    /// Publishes the effect, and adds the result of each event. Called after the commit.
    async fn publish(
        self,
        service: &Service,
        session_id: SessionId,
        applied: &mut Vec<EventResult>,
    ) {
        match self {
            Self::Stopped(stops) => {
                let run_ids = stops.iter().map(StopRequest::run_id).collect();
                let last = stops.iter().rev().find_map(StopRequest::events);
                applied.push(EventResult { run_ids, is_repeated: false, events: last });
                for stop in stops {
                    stop.publish(service);
                }
            }
            Self::Answered { effect, events } => {
                let answer = effect.publish(service, session_id).await;
                let event = EventResult {
                    run_ids: vec![answer.run_id],
                    is_repeated: answer.is_repeated,
                    events: answer.events,
                };
                applied.extend(std::iter::repeat_n(event, events));
            }
        }
    }
}
