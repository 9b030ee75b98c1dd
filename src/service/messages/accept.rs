//! Accepts a message: its run starts, is queued, interrupts the active run, or is refused.

use sqlx::PgConnection;

use super::message_post::{MessagePost, PostedRun};
use crate::bus::Reservation;
use crate::domain::claim::Claimed;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{EventId, MessageId, RunId};
use crate::domain::media::with_placeholders;
use crate::domain::model_settings::ModelSettings;
use crate::domain::run::Run;
use crate::domain::run_log::RunLog;
use crate::domain::run_options::{OnBusy, RunOptions};
use crate::domain::run_status::RunStatus;
use crate::domain::strict_tools::has_strict;
use crate::domain::usage::Usage;
use crate::faults::{self, Point};
use crate::service::content::{check_model_support, file_uses};
use crate::service::error::Error;
use crate::service::files::check_files;
use crate::service::quotas::reserve_message;
use crate::service::session_settings::check_history;
use crate::store::StoreError;
use crate::store::accept::{AcceptStatus, Accepted, AcceptedRun, EncodedAccept, NewRun, accept};
use crate::store::files::resolve;
use crate::store::group_commit::Grouped;
use crate::store::leases::release;
use crate::store::sessions::find;

impl MessagePost<'_> {
    /// Accepts the message, or finds the run of an earlier identical request.
    pub(in crate::service) async fn post(&self) -> Result<PostedRun, Error> {
        let posted = self.try_post().await?;
        posted.ok_or_else(|| Error::internal("a message was refused without a reason"))
    }

    /// As [`Self::post`]. None if the message could only start a run, and did not.
    pub(super) async fn try_post(&self) -> Result<Option<PostedRun>, Error> {
        let message = self.message;
        let options = message.options()?;
        let model_settings = self.check_for_session().await?;
        let fingerprint = self.fingerprint()?;
        // The trace is not part of the fingerprint: each request has its own.
        let options = RunOptions { trace: Some(self.request.trace), model_settings, ..options };
        let message_id = message.id.clone().unwrap_or_else(|| MessageId::new().to_string());
        let content = with_placeholders(&message.content).map_err(Error::internal)?;
        let body = EventBody::UserMessage {
            content,
            message_id: Some(message_id.clone()),
            retry_of: message.retry_of,
        };
        let event = NewEvent::with_id(message_id.clone(), &body);
        let new = NewRun {
            id: RunId::new(),
            tenant: self.tenant,
            session_id: self.session_id,
            message_id: &message_id,
            input: message.content.as_str(),
            options: &options,
            idempotency_key: self.request.idempotency_key.as_deref(),
            client_message_id: message.id.as_deref(),
            fingerprint: &fingerprint,
            event: &event,
            request_event: EventId::new(),
            worker: None,
            may_wait: false,
            versions: self.request.versions.as_deref(),
        };
        self.admit(new).await
    }

    /// Accepts the message if there is capacity, and hands its run to the worker of this process if
    /// the run can start.
    async fn admit(&self, mut new: NewRun<'_>) -> Result<Option<PostedRun>, Error> {
        faults::point(Point::PostRead).await;
        let service = self.service;
        // A run that goes early must not lose to that of another message, which may be the same one sent
        // again. Those that need a check do not go early, and take long.
        let known_sessions = &service.known_sessions;
        let _guard =
            if self.needs_check { None } else { known_sessions.enter(new.session_id).await };
        // Free again when the message is refused, or when the client closes the connection.
        let reserved = match reserve_message(service, &new).await {
            Ok(reserved) => reserved,
            Err(refusal) => return self.repeated_or(&new, refusal).await.map(Some),
        };
        let permit = service.admission.reserve(&service.admission_pool, self.tenant).await?;
        let mut reservation = service.bus.reserve();
        let overload = permit.as_ref().err().copied();
        let permit = permit.ok();
        if let (Some(overload), None) = (overload, &reservation) {
            // The run could neither start nor be queued.
            return self.repeated_or(&new, Error::Overloaded(overload)).await.map(Some);
        }
        new.worker = reservation.as_ref().map(Reservation::worker);
        self.start_early(&new, reservation.as_mut());
        let accepted = match self.accept(&mut new, overload.is_none()).await {
            // An identical request may have been accepted meanwhile, and be part of what was checked.
            Err(refusal @ (Error::Validation(_) | Error::VersionMismatch)) => {
                return self.repeated_or(&new, refusal).await.map(Some);
            }
            accepted => accepted?,
        };
        match accepted {
            Accepted::Run(accepted) => {
                reserved.keep();
                let is_queued = accepted.begun.is_none();
                let posted = self.start_or_announce(&new, *accepted, reservation).await?;
                if let Some(permit) = permit.filter(|_| is_queued) {
                    permit.record_queued(&service.admission_pool).await;
                }
                Ok(Some(posted))
            }
            Accepted::Refused | Accepted::Repeated if self.only_starts => Ok(None),
            Accepted::Refused => {
                let refusal = self.refusal(overload, new.versions).await?;
                self.repeated_or(&new, refusal).await.map(Some)
            }
            Accepted::Repeated => {
                let defect = Error::internal("no earlier run for a repeated key");
                self.repeated_or(&new, defect).await.map(Some)
            }
        }
    }

    /// An idle session accepts every plain message in one statement; a busy session treats it as
    /// `on_busy` says.
    async fn accept(&self, new: &mut NewRun<'_>, may_queue: bool) -> Result<Accepted, Error> {
        let may_queue = may_queue && !self.only_starts;
        let interrupts = may_queue && self.on_busy() == OnBusy::Interrupt;
        if self.needs_check {
            new.may_wait = may_queue && self.on_busy() != OnBusy::Reject;
            return self.accept_locked(new, interrupts).await;
        }
        new.may_wait = may_queue && self.on_busy() == OnBusy::Queue;
        let accepted = self.accept_in_group(new).await?;
        if matches!(accepted, Accepted::Refused) && interrupts {
            new.may_wait = true;
            return self.accept_locked(new, interrupts).await;
        }
        Ok(accepted)
    }

    /// Accepts a message with one statement, together with other messages of the tenant if some are
    /// being accepted.
    async fn accept_in_group(&self, new: &NewRun<'_>) -> Result<Accepted, StoreError> {
        let encoded = EncodedAccept::of(new)?;
        match self.service.accepts.write(self.tenant, encoded).await? {
            Grouped::Done(AcceptStatus::Skipped) | Grouped::NotWritten => {
                let accept = async |conn: &mut PgConnection| accept(conn, new).await;
                self.service.pool.with(self.tenant, accept).await
            }
            Grouped::Done(status) => status.into_accepted(new),
            Grouped::Unknown => Err(StoreError::NoAnswer),
        }
    }

    /// The effect of the message on a busy session.
    pub(super) fn on_busy(&self) -> OnBusy {
        self.message.on_busy.unwrap_or(self.service.on_busy)
    }

    async fn start_or_announce(
        &self,
        new: &NewRun<'_>,
        accepted: AcceptedRun,
        reservation: Option<Reservation>,
    ) -> Result<PostedRun, Error> {
        faults::point(Point::MessageStored).await;
        let run = accepted_run(new, &accepted);
        self.service.metrics.run_accepted();
        self.service.bus.publish(self.session_id, accepted.frames);
        if let (Some(begun), Some(reservation)) = (accepted.begun, reservation) {
            self.service.known_sessions.add_started(new, &begun);
            self.hand_over(reservation, begun).await?;
        } else {
            // Its run may start in any process.
            self.service.known_sessions.remove(self.session_id);
            self.service.bus.announce_work();
        }
        Ok(PostedRun { run, is_repeated: false })
    }

    async fn hand_over(&self, reservation: Reservation, run: Claimed) -> Result<(), Error> {
        if let Err(run) = reservation.hand_over(run) {
            // The worker has stopped meanwhile: the lease is released, so that another one claims the
            // run at once.
            let fence = run.fence;
            let release = async |conn: &mut PgConnection| release(conn, fence, false).await;
            self.service.pool.with(self.tenant, release).await?;
        }
        Ok(())
    }

    /// False if the message names no model or the one that the session is known to have.
    fn changes_model(&self) -> bool {
        let change = &self.message.model_change;
        let Self { service, session_id, .. } = *self;
        let is_known = |model: &str| {
            !service.bus.has_peers() && service.known_sessions.has_model(session_id, model)
        };
        !change.is_unset() && !change.only_model().is_some_and(is_known)
    }

    /// Checks that the session supports the message, and returns the model settings of its run, if they
    /// are not those of the session. Plain messages need no read of the session.
    pub(in crate::service) async fn check_for_session(
        &self,
    ) -> Result<Option<Box<ModelSettings>>, Error> {
        let message = self.message;
        let mut options = message.options()?;
        let has_cost = message.limits.cost.is_some();
        let has_parameters = !options.generation.is_unset() || options.stop_sequences.is_some();
        let has_model = options.model_settings.is_some() || self.changes_model();
        let is_plain = !has_cost
            && !has_parameters
            && !has_model
            && options.tools.is_none()
            && !self.needs_check;
        let choice = message.tool_choice.as_ref().filter(|choice| choice.is_forced());
        if is_plain && choice.is_none() {
            return Ok(None);
        }
        let (tenant, session_id) = (self.tenant, self.session_id);
        let uses = file_uses(&message.content).map_err(Error::internal)?;
        let find = async |conn: &mut PgConnection| {
            check_files(conn, tenant, session_id, &uses).await?;
            Ok::<_, Error>(find(conn, tenant, session_id).await?)
        };
        let session = self.service.pool.with(tenant, find).await?;
        let session = session.ok_or_else(|| Error::SessionNotFound(session_id.to_string()))?;
        let mut settings = session.settings;
        if let Some(changed) = message.model_change.apply(self.service, &settings)? {
            settings.set_model(&changed);
            let check = async |conn: &mut PgConnection| {
                check_history(self.service, conn, (tenant, session_id), &settings).await
            };
            self.service.pool.with(tenant, check).await?;
            options.model_settings = Some(Box::new(changed));
        }
        settings.apply(&options);
        Error::if_any(self.service.defaults.model_rules.generation_problems(&settings))?;
        Error::if_any(message.tool_errors(&settings.tool_names()))?;
        if let Some(tools) = options.tools.as_deref().filter(|tools| has_strict(tools)) {
            let rules = &self.service.defaults.model_rules;
            Error::if_any(rules.strict_problem(&settings, Some(tools)).into_iter().collect())?;
        }
        let models = &self.service.defaults.model_rules.models;
        let mut content = message.content.as_str().to_owned();
        if !uses.is_empty() {
            let files = async |conn: &mut PgConnection| resolve(conn, vec![&mut content]).await;
            self.service.pool.with(tenant, files).await?;
        }
        check_model_support(models, &settings, &[("/content".to_owned(), &content)]).await?;
        if let Some(choice) = choice
            && let Some(reason) =
                settings.refuses(&models.find(settings.model_ref()), choice, &options)
        {
            return Err(Error::field("/tool_choice", reason));
        }
        if has_cost && settings.price.is_none() {
            let model = settings.model;
            let reason =
                format!("no price is known for {model}; the operator sets prices with --prices");
            return Err(Error::field("/limits/cost", reason));
        }
        Ok(options.model_settings)
    }
}

fn accepted_run(new: &NewRun<'_>, accepted: &AcceptedRun) -> Run {
    let has_started = accepted.begun.is_some();
    Run {
        id: new.id,
        session_id: new.session_id,
        message_id: new.message_id.to_owned(),
        retry_of: new.options.retry_of,
        status: if has_started { RunStatus::Running } else { RunStatus::Queued },
        accepted_seq: accepted.frames.first().map_or(0, |frame| frame.seq),
        seq: accepted.frames.last().map_or(0, |frame| frame.seq),
        queue_position: (!has_started).then_some(accepted.queued.into()),
        pending: Vec::new(),
        log: RunLog::default(),
        outcome: None,
        is_imported: false,
        model_requests: 0,
        usage: Usage::default(),
        cost: None,
        created_at: accepted.created_at,
        started_at: has_started.then_some(accepted.created_at),
        finished_at: None,
    }
}
