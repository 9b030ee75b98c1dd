//! One request: finds or creates its session and applies the intent of the client.

use serde_json::{Map, Value};

use super::body::{CompletionAction, CompletionRequest};
use super::conversation::ConversationName;
use super::side_request::model_name;
use super::transcript::Transcript;
use crate::domain::agent::AgentChoice;
use crate::domain::ids::SessionId;
use crate::http::adapters::call_answers::CallAnswers;
use crate::http::adapters::fork_turn::ForkPoint;
use crate::http::adapters::turn::{AppliedTurn, MessageDraft, OpenSession, Turn};
use crate::http::error::{ApiError, FieldError};
use crate::service::agents::find_agent;
use crate::service::known_sessions::KnownConversation;
use crate::service::lookup::find_run;
use crate::service::messages::NewMessage;
use crate::service::session_settings::CreateSession;
use crate::service::sessions::{create_session, find_session};
use crate::service::transcripts::{list_message_turns, message_place};
use crate::service::{AgentError, Error};

/// The model without an agent: the operator's defaults.
pub(super) const DEFAULT_MODEL: &str = "default";

/// A request for a completion or a response.
pub(super) struct CompletionTurn<'a> {
    pub(super) turn: Turn<'a>,
    pub(super) name: Option<ConversationName>,
    /// The model of the request.
    pub(super) model: &'a str,
    /// The user of the request.
    pub(super) user: Option<&'a str>,
}

impl CompletionTurn<'_> {
    /// Applies the request.
    pub(super) async fn apply(&self, request: CompletionRequest) -> Result<AppliedTurn, ApiError> {
        let CompletionRequest { system, transcript, action, answers } = request;
        match action {
            CompletionAction::Submit(draft) => {
                Box::pin(self.submit(draft, &system, &transcript, answers)).await
            }
            CompletionAction::Answer => {
                let session_id = self.find_waiting(&transcript, &answers).await?;
                self.turn.answer(session_id, answers).await
            }
            CompletionAction::Side(draft) => Box::pin(self.post_aside(draft, &system)).await,
        }
    }

    /// Posts a message into the session of the conversation, or into a fork that leaves out the messages
    /// that the transcript does not have.
    async fn submit(
        &self,
        mut draft: MessageDraft,
        system: &str,
        transcript: &Transcript,
        answers: CallAnswers,
    ) -> Result<AppliedTurn, ApiError> {
        let (service, tenant) = (self.turn.service, self.turn.tenant());
        draft.id = Some(transcript.id.clone());
        // Before the session is created: a request that is refused leaves none.
        let message = self.turn.check(draft).await?;
        let message = self.turn.with_model(message, self.named_model());
        let previous = transcript.previous.as_deref();
        let has_transcript = self.name.as_ref().is_none_or(|name| name.has_transcript);
        let mut message = match self.start(system, message, previous, has_transcript).await? {
            Ok(applied) => return Ok(applied),
            Err(message) => message,
        };
        let session = self.open(system, transcript).await?;
        if session.is_new || (previous.is_none() && !has_transcript) {
            if !session.is_new {
                // A client that sends only new messages may send the same text twice.
                message = message.with_id(None);
            }
        } else {
            let place = message_place(service, tenant, session.id, previous).await?;
            if let Some(next) = place.next.filter(|_| place.is_known || previous.is_none()) {
                let key = format!("openai-{}-{next}", transcript.id);
                let external_id = session.external_id.as_deref();
                // Without a name, the same transcript again asks for another answer.
                let key = external_id.map(|_| key.as_str());
                let (session_id, before) = (session.id, Some(next));
                let point = ForkPoint { session_id, external_id, before, key };
                let post = self.turn.message(session_id, message);
                return self.turn.post_into_fork(point, post).await;
            }
        }
        self.turn.settle_waiting(&session, answers).await?;
        self.turn.post(&self.turn.message(session.id, message)).await
    }

    /// Posts a message that follows the newest one of a conversation that this process knows.
    async fn start(
        &self,
        system: &str,
        message: NewMessage,
        previous: Option<&str>,
        has_transcript: bool,
    ) -> Result<Result<AppliedTurn, NewMessage>, ApiError> {
        let Some(name) = self.name.as_ref().filter(|name| name.id.parse::<SessionId>().is_err())
        else {
            return Ok(Err(message));
        };
        let creation = self.creation(Some(&name.id), system, true)?;
        if previous.is_none() && !has_transcript {
            // A client that sends only new messages may send the same text twice.
            let id = message.id().map(str::to_owned);
            let started = self.turn.start(&creation, message.with_id(None), |_| true).await?;
            return Ok(started.map_err(|message| message.with_id(id)));
        }
        let follows =
            |known: &KnownConversation| previous.is_some() && known.newest.as_deref() == previous;
        self.turn.start(&creation, message, follows).await
    }

    /// Finds the session of the conversation, or creates one.
    async fn open(&self, system: &str, transcript: &Transcript) -> Result<OpenSession, ApiError> {
        let Some(name) = &self.name else {
            if let Some(session) = self.find_by_transcript(transcript).await? {
                return Ok(session);
            }
            let creation = self.creation(None, system, true)?;
            return self.create(creation).await;
        };
        if let Ok(id) = name.id.parse::<SessionId>() {
            let session = find_session(self.turn.service, self.turn.tenant(), id).await?;
            return Ok(OpenSession::found(&session));
        }
        let creation = self.creation(Some(&name.id), system, true)?;
        match self.turn.open(&name.id, creation).await {
            Err(error) => Err(self.refused(error).await),
            opened => opened,
        }
    }

    async fn create(&self, creation: CreateSession) -> Result<OpenSession, ApiError> {
        let creator = self.turn.caller.creator();
        let created = create_session(self.turn.service, &creator, creation, None).await;
        let created = match created {
            Err(error) => return Err(self.refused(error.into()).await),
            Ok(created) => created,
        };
        Ok(OpenSession { is_new: true, ..OpenSession::found(&created.session) })
    }

    /// The error of a refused session: clients expect 404 for a model that does not exist.
    async fn refused(&self, error: ApiError) -> ApiError {
        let is_agent = |errors: &[FieldError]| errors.iter().any(|it| it.pointer == "/agent");
        if !matches!(&error, ApiError::Service(Error::Validation(errors)) if is_agent(errors)) {
            return error;
        }
        let name = model_name(self.model);
        let Ok(AgentChoice { name: agent, version }) = name.parse() else { return error };
        match find_agent(self.turn.service, self.turn.tenant(), &agent, version).await {
            Ok(None) => Error::from(AgentError::NotFound(name.to_owned())).into(),
            Ok(Some(_)) | Err(_) => error,
        }
    }

    /// Finds the session whose newest answer to the message before is the one that the client has.
    async fn find_by_transcript(
        &self,
        transcript: &Transcript,
    ) -> Result<Option<OpenSession>, ApiError> {
        let (service, tenant) = (self.turn.service, self.turn.tenant());
        let Some(previous) = &transcript.previous else { return Ok(None) };
        let turns = list_message_turns(service, tenant, previous).await?;
        let has_answer = |answer: &Option<String>| {
            answer.as_deref().is_some_and(|answer| transcript.has_answer(answer))
        };
        let mut found = None;
        for turn in turns.into_iter().filter(|turn| has_answer(&turn.answer)) {
            let place = message_place(service, tenant, turn.session_id, Some(previous)).await?;
            if place.next.is_none() {
                found = Some(turn.session_id);
                break;
            }
            // A session that has gone on since is forked, if no other has the same transcript.
            found = found.or(Some(turn.session_id));
        }
        let Some(id) = found else { return Ok(None) };
        let session = find_session(service, tenant, id).await?;
        // The client has not named the session, so its external id is another client's.
        Ok(Some(OpenSession { external_id: None, ..OpenSession::found(&session) }))
    }

    /// Finds the session that waits for one of these answers.
    pub(super) async fn find_waiting(
        &self,
        transcript: &Transcript,
        answers: &CallAnswers,
    ) -> Result<SessionId, ApiError> {
        let (service, tenant) = (self.turn.service, self.turn.tenant());
        if let Some(name) = &self.name {
            return Ok(match name.id.parse::<SessionId>() {
                Ok(id) => id,
                Err(_) => self.turn.find(&name.id).await?.id,
            });
        }
        let mut called = answers.given.iter().map(|answer| &answer.tool_use_id);
        for turn in list_message_turns(service, tenant, &transcript.id).await? {
            let run = find_run(service, tenant, turn.session_id, turn.run_id).await?;
            let has_call = |id: &&String| run.log.calls.iter().any(|call| call.tool_use_id == **id);
            if called.clone().any(|id| has_call(&id)) {
                return Ok(turn.session_id);
            }
        }
        let id = called.next().cloned().unwrap_or_default();
        Err(Error::ToolCallNotFound(id).into())
    }

    /// Posts a message that is no turn of a conversation, into a session of its own without tools of the
    /// service.
    async fn post_aside(&self, draft: MessageDraft, system: &str) -> Result<AppliedTurn, ApiError> {
        let message = self.turn.check(draft).await?;
        let session = self.create(self.creation(None, system, false)?).await?;
        self.turn.post(&self.turn.message(session.id, message)).await
    }

    /// The model that the request names, if it names no agent.
    pub(super) fn named_model(&self) -> Option<&str> {
        let models = &self.turn.service.defaults.model_rules.models;
        let is_model = models.locate(self.model).provider.is_some()
            || models.list().iter().any(|(name, _)| name == self.model);
        (self.model != DEFAULT_MODEL && is_model).then_some(self.model)
    }

    /// The settings of a new session.
    fn creation(
        &self,
        external_id: Option<&str>,
        system: &str,
        has_tools: bool,
    ) -> Result<CreateSession, ApiError> {
        let mut settings = Map::new();
        let mut set = |name: &str, value: Value| settings.insert(name.to_owned(), value);
        let model = if has_tools { self.model } else { model_name(self.model) };
        let models = &self.turn.service.defaults.model_rules.models;
        if model != DEFAULT_MODEL {
            let is_model = models.locate(model).provider.is_some()
                || models.list().iter().any(|(name, _)| name == model);
            if !is_model && model.parse::<AgentChoice>().is_err() {
                return Err(Error::from(AgentError::NotFound(model.to_owned())).into());
            }
            set(if is_model { "model" } else { "agent" }, model.into());
        }
        if let Some(external_id) = external_id {
            set("external_id", external_id.into());
        }
        if !system.is_empty() {
            set("system", system.into());
        }
        if !has_tools {
            set("tools", Value::Array(Vec::new()));
        }
        // The subject of a token is the user.
        let has_subject = self.turn.caller.creator().subject.is_some();
        let user = self.user.filter(|user| !user.is_empty() && !has_subject);
        if let Some(user) = user {
            set("user", user.into());
        }
        serde_json::from_value(settings.into())
            .map_err(|error| ApiError::field("/model", format!("is not usable: {error}")))
    }
}
