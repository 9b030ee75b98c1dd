//! Taking a message in: it begins, it waits its turn, it interrupts, or it is refused.

use super::{Post, Taken};
use crate::bus::Reservation;
use crate::domain::claim::Claimed;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{MessageId, RunId};
use crate::domain::media::told;
use crate::domain::message::{BadContent, Content};
use crate::domain::run::{OnBusy, Run, RunOptions, RunStatus};
use crate::domain::run_log::RunLog;
use crate::domain::usage::Usage;
use crate::faults::{self, Point};

use crate::http::error::ApiError;
use crate::http::extract::conditions::expected;
use crate::http::routes::runs::known_run;
use crate::service::Error;
use crate::service::content::check_model_support;
use crate::service::lookup::newest_event;
use crate::service::versions::check_version;
use crate::store::accept::{Accepted, AcceptedRun, MAX_QUEUED, NewRun, accept};
use crate::store::claim::release;
use crate::store::runs::find_busy;
use crate::store::sessions::{find, is_archived};

impl Post<'_> {
    /// Accepts the message, or finds the run that the same post made before.
    pub(in crate::http::routes) async fn take(&self, content: &Content) -> Result<Taken, ApiError> {
        let key = self.idempotency_key()?;
        let options = self.message.options()?;
        self.check_for_session(content).await?;
        let fingerprint = self.fingerprint(content)?;
        // No part of what makes two posts the same.
        let options = RunOptions { trace: Some(self.trace), ..options };
        let may_repeat = key.is_some() || self.message.id.is_some();
        if may_repeat && let Some(taken) = self.repeated(key, &fingerprint).await? {
            return Ok(taken);
        }
        let message_id = self.message.id.clone().unwrap_or_else(|| MessageId::new().to_string());
        let versions = expected(self.headers);
        let body = EventBody::UserMessage { content: told(content).map_err(unreadable)? };
        let event = NewEvent::with_id(message_id.clone(), &body);
        let new = NewRun {
            id: RunId::new(),
            tenant: self.tenant,
            session_id: self.session_id,
            message_id: &message_id,
            input: content.as_str(),
            options: &options,
            idempotency_key: key,
            client_message_id: self.message.id.as_deref(),
            fingerprint: &fingerprint,
            event: &event,
            worker: None,
            may_wait: false,
            versions: versions.as_deref(),
        };
        self.accept(new).await
    }

    /// Accepts the message, and hands its run to the worker of this process if it can begin.
    async fn accept(&self, mut new: NewRun<'_>) -> Result<Taken, ApiError> {
        faults::point(Point::PostRead).await;
        let service = &self.api.service;
        let place = service.admission.reserve(&service.admission_pool).await?;
        let reservation = self.api.bus.reserve();
        if place.is_none() && reservation.is_none() {
            // It could neither wait nor begin.
            return self.earlier_or(&new, ApiError::Service(Error::Overloaded)).await;
        }
        new.worker = reservation.as_ref().map(Reservation::worker);
        let has_place = place.is_some();
        let accepted = match self.try_accept(&mut new, has_place).await {
            // The same post may have been accepted a moment ago, and is counted as well.
            Err(
                refusal @ (ApiError::Service(Error::Validation(_))
                | ApiError::Service(Error::VersionMismatch)),
            ) => {
                return self.earlier_or(&new, refusal).await;
            }
            accepted => accepted?,
        };
        match accepted {
            Accepted::Run(accepted) => {
                let waits = accepted.begun.is_none();
                let taken = self.begin_or_announce(&new, *accepted, reservation).await?;
                if let Some(place) = place.filter(|_| waits) {
                    place.record_queued(&service.admission_pool).await;
                }
                Ok(taken)
            }
            Accepted::Refused => {
                let refusal = self.refusal(has_place, new.versions).await?;
                // The same post may have taken the last place a moment ago.
                self.earlier_or(&new, refusal).await
            }
            Accepted::Repeated => {
                let never = ApiError::Internal("no earlier run for a key".to_owned());
                self.earlier_or(&new, never).await
            }
        }
    }

    /// An idle session takes every plain message, in one statement; a busy one as the message says.
    async fn try_accept(
        &self,
        new: &mut NewRun<'_>,
        has_place: bool,
    ) -> Result<Accepted, ApiError> {
        let interrupts = has_place && self.on_busy() == OnBusy::Interrupt;
        if self.is_counted {
            new.may_wait = has_place && self.on_busy() != OnBusy::Reject;
            return self.accept_locked(new, interrupts).await;
        }
        new.may_wait = has_place && self.on_busy() == OnBusy::Queue;
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let accepted = accept(&mut conn, new).await?;
        conn.give_back();
        if matches!(accepted, Accepted::Refused) && interrupts {
            new.may_wait = true;
            return self.accept_locked(new, interrupts).await;
        }
        Ok(accepted)
    }

    /// What the message means if the session is busy.
    fn on_busy(&self) -> OnBusy {
        self.message.on_busy.unwrap_or(self.api.options.on_busy)
    }

    async fn begin_or_announce(
        &self,
        new: &NewRun<'_>,
        accepted: AcceptedRun,
        reservation: Option<Reservation>,
    ) -> Result<Taken, ApiError> {
        faults::point(Point::MessageStored).await;
        let run = accepted_run(new, &accepted);
        self.api.metrics.run_accepted();
        self.api.bus.publish(self.session_id, accepted.frames);
        match (accepted.begun, reservation) {
            (Some(begun), Some(reservation)) => self.hand_over(reservation, begun).await?,
            _ => self.api.bus.announce_work(),
        }
        Ok(Taken { run, is_repeated: false })
    }

    async fn hand_over(&self, reservation: Reservation, run: Claimed) -> Result<(), ApiError> {
        if let Err(run) = reservation.hand_over(run) {
            // The worker stops just now: another one is to take the run over at once.
            let mut conn = self.api.pool.acquire_as(self.tenant).await?;
            release(&mut conn, run.fence, false).await?;
            conn.give_back();
        }
        Ok(())
    }

    /// Why a message that could not begin was refused.
    async fn refusal(
        &self,
        has_place: bool,
        versions: Option<&[i64]>,
    ) -> Result<ApiError, ApiError> {
        let last_seq = newest_event(&self.api.service, self.tenant, self.session_id).await?;
        if let Err(mismatch) = check_version(versions, last_seq) {
            return Ok(mismatch.into());
        }
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let is_archived = is_archived(&mut conn, self.tenant, self.session_id).await?;
        conn.give_back();
        if is_archived == Some(true) {
            return Ok(ApiError::Service(Error::SessionArchived));
        }
        if self.on_busy() == OnBusy::Reject {
            let mut conn = self.api.pool.acquire_as(self.tenant).await?;
            let busy = find_busy(&mut conn, self.tenant, self.session_id).await?;
            conn.give_back();
            let Some(active_run_id) = busy else {
                return Ok(ApiError::Internal("a busy session without a run".to_owned()));
            };
            let run = known_run(self.api, self.tenant, self.session_id, active_run_id).await?;
            return Ok(match run.status {
                RunStatus::RequiresAction if !run.goes_on() => {
                    ApiError::Service(Error::ActionRequired { active_run_id })
                }
                RunStatus::RequiresAction
                | RunStatus::Queued
                | RunStatus::Running
                | RunStatus::Completed
                | RunStatus::Failed
                | RunStatus::Cancelled => ApiError::Service(Error::SessionBusy { active_run_id }),
            });
        }
        Ok(if has_place {
            ApiError::Service(Error::QueueFull(MAX_QUEUED))
        } else {
            ApiError::Service(Error::Overloaded)
        })
    }

    /// The run that the same post made before, or else this error.
    async fn earlier_or(&self, new: &NewRun<'_>, error: ApiError) -> Result<Taken, ApiError> {
        if new.idempotency_key.is_none() && new.client_message_id.is_none() {
            return Err(error);
        }
        self.repeated(new.idempotency_key, new.fingerprint).await?.ok_or(error)
    }

    /// Makes sure that the session can serve what the message asks.
    pub(in crate::http::routes) async fn check_for_session(
        &self,
        content: &Content,
    ) -> Result<(), ApiError> {
        let options = &self.message.options()?;
        let has_cost = self.message.limits.cost.is_some();
        let is_plain = !has_cost && options.tools.is_none() && !self.is_counted;
        if self.message.tool_choice.is_forced() || !is_plain {
            let mut conn = self.api.pool.acquire_as(self.tenant).await?;
            let session = find(&mut conn, self.tenant, self.session_id).await?;
            conn.give_back();
            let session = session.ok_or_else(|| {
                ApiError::Service(Error::SessionNotFound(self.session_id.to_string()))
            })?;
            let errors = self.message.tool_errors(&session.settings.tool_names());
            if !errors.is_empty() {
                return Err(ApiError::Service(Error::Validation(errors)));
            }
            let models = &self.api.defaults.model_rules.models;
            let content = ("/content".to_owned(), content.as_str());
            check_model_support(models, &session.settings.model, &[content]).await?;
            let model = models.find(&session.settings.model);
            let choice = &self.message.tool_choice;
            if let Some(reason) = session.settings.refuses(&model, choice, options) {
                return Err(ApiError::field("/tool_choice", reason));
            }
            if has_cost && session.settings.price.is_none() {
                let model = session.settings.model;
                return Err(ApiError::field(
                    "/limits/cost",
                    format!("no price is known for {model}; the operator gives it with --prices"),
                ));
            }
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn unreadable(error: BadContent) -> ApiError {
    ApiError::Internal(error.to_string())
}

fn accepted_run(new: &NewRun<'_>, accepted: &AcceptedRun) -> Run {
    let is_begun = accepted.begun.is_some();
    Run {
        id: new.id,
        session_id: new.session_id,
        message_id: new.message_id.to_owned(),
        status: if is_begun { RunStatus::Running } else { RunStatus::Queued },
        accepted_seq: accepted.frames.first().map_or(0, |frame| frame.seq),
        queue_position: (!is_begun).then_some(accepted.queued.into()),
        pending: Vec::new(),
        log: RunLog::default(),
        outcome: None,
        is_imported: false,
        model_requests: 0,
        usage: Usage::default(),
        cost: None,
        created_at: accepted.created_at,
        started_at: is_begun.then_some(accepted.created_at),
        finished_at: None,
    }
}
