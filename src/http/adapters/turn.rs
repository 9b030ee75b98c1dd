//! The steps of a request that starts or continues a run, which all adapters share: it finds or creates
//! the session of a conversation, posts a message or answers calls, and names the run that the response
//! follows.

use std::collections::HashSet;

use super::call_answers::CallAnswers;
use crate::bus::Subscription;
use crate::domain::browser_token::BrowserScope;
use crate::domain::generation::Generation;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::limits::Limits;
use crate::domain::run_options::OnBusy;
use crate::domain::session::Session;
use crate::domain::tool::ToolChoice;
use crate::domain::trace::Trace;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::run_response::FollowedRun;
use crate::service::cancel::cancel_run;
use crate::service::client_events::{ClientEvents, EventResult, PostEvents};
use crate::service::client_tool::ClientTool;
use crate::service::content::ContentInput;
use crate::service::deadline::in_time;
use crate::service::known_sessions::KnownConversation;
use crate::service::lookup::{find_current_run, find_run};
use crate::service::messages::{
    MessageInput, NewMessage, PostMessage, PostedRun, post_message, start_message,
};
use crate::service::offload::offload;
use crate::service::session_settings::{CreateSession, ModelChange};
use crate::service::sessions::{
    Conversation, find_by_client_id, find_known_conversation, open_conversation,
};
use crate::service::{Error, Service};

/// A request that starts or continues a run.
#[derive(Debug)]
pub(in crate::http) struct Turn<'a> {
    pub(in crate::http) service: &'a Service,
    pub(in crate::http) caller: &'a Caller,
    pub(in crate::http) trace: Trace,
    /// The size of the body, if it is large.
    pub(in crate::http) bytes: usize,
}

/// The run that the response follows.
#[derive(Debug)]
pub(in crate::http) struct AppliedTurn {
    pub(in crate::http) followed: FollowedRun,
    /// Older than the effect of the request.
    pub(in crate::http) subscription: Subscription,
    /// Calls whose results the client has sent.
    pub(in crate::http) answered: HashSet<String>,
    /// True if the stream begins with answers of the client.
    pub(in crate::http) is_continued: bool,
}

/// The session of a conversation.
#[derive(Debug)]
pub(in crate::http) struct OpenSession {
    pub(in crate::http) id: SessionId,
    pub(in crate::http) is_new: bool,
    /// True if a run of the session waits for the client.
    pub(in crate::http) is_waiting: bool,
    pub(in crate::http) external_id: Option<String>,
}

/// A message of a user that is not checked yet.
#[derive(Debug)]
pub(in crate::http) struct MessageDraft {
    /// The client's id of the message.
    pub(in crate::http) id: Option<String>,
    pub(in crate::http) content: ContentInput,
    pub(in crate::http) tools: Vec<ClientTool>,
    pub(in crate::http) tool_choice: Option<ToolChoice>,
    /// A JSON pointer to the message.
    pub(in crate::http) pointer: String,
}

impl Turn<'_> {
    pub(in crate::http) fn tenant(&self) -> TenantId {
        self.caller.tenant
    }

    /// Posts a message that starts a run, if this process knows the session of the conversation, and the
    /// message `follows` what it knows. Gives the message back otherwise: the session must be opened,
    /// which takes reads of the database.
    pub(in crate::http) async fn start(
        &self,
        creation: &CreateSession,
        message: NewMessage,
        follows: impl FnOnce(&KnownConversation) -> bool,
    ) -> Result<Result<AppliedTurn, NewMessage>, ApiError> {
        if self.caller.is_browser() {
            return Ok(Err(message));
        }
        // A refusal here is reported when the session is opened.
        let known = find_known_conversation(self.service, &self.caller.creator(), creation);
        let Some(known) = known.ok().flatten().filter(follows) else { return Ok(Err(message)) };
        let post = self.message(known.session_id, message);
        let subscription = self.service.bus.subscribe(post.session_id);
        Ok(match in_time(start_message(self.service, &post)).await? {
            Some(posted) => Ok(AppliedTurn::new(posted, subscription)),
            None => Err(post.message),
        })
    }

    /// Finds or creates the session of a conversation, whose id is the `external_id` in `creation`.
    /// Browsers cannot create sessions.
    pub(in crate::http) async fn open(
        &self,
        external_id: &str,
        creation: CreateSession,
    ) -> Result<OpenSession, ApiError> {
        if self.caller.is_browser() {
            self.require_post()?;
            return Ok(OpenSession::found(&self.find(external_id).await?));
        }
        let Conversation { id, is_new, is_waiting } =
            open_conversation(self.service, &self.caller.creator(), creation).await?;
        Ok(OpenSession { id, is_new, is_waiting, external_id: Some(external_id.to_owned()) })
    }

    /// Finds the session of a conversation. Sessions of others look as if they did not exist.
    pub(in crate::http) async fn find(&self, external_id: &str) -> Result<Session, ApiError> {
        let session = find_by_client_id(self.service, self.tenant(), external_id).await?;
        if self.caller.may_use(&session) {
            return Ok(session);
        }
        Err(Error::SessionNotFound(external_id.to_owned()).into())
    }

    /// Refuses a browser token that cannot post messages, or not with the effect that they have here on
    /// a busy session.
    fn require_post(&self) -> Result<(), ApiError> {
        self.caller.require(BrowserScope::Post)?;
        if self.service.on_busy == OnBusy::Interrupt {
            self.caller.require(BrowserScope::Cancel)?;
        }
        Ok(())
    }

    /// Checks everything of a message that does not depend on its session.
    pub(in crate::http) async fn check(&self, draft: MessageDraft) -> Result<NewMessage, ApiError> {
        let MessageDraft { id, content, tools, tool_choice, pointer } = draft;
        let (on_busy, permission_mode) = (None, None);
        let limits = Limits::default();
        let (generation, stop_sequences) = (Generation::default(), None);
        let input = MessageInput {
            content,
            id,
            limits,
            tool_choice,
            on_busy,
            tools,
            permission_mode,
            generation,
            stop_sequences,
            model_change: ModelChange::default(),
        };
        let checked: Result<NewMessage, Error> =
            offload(self.bytes, move || input.validate()).await?;
        checked.map_err(|error| error.under(&pointer).into())
    }

    /// The same message for a model that the request names, which answers it in place of the session's.
    /// A browser cannot choose the model.
    pub(in crate::http) fn with_model(&self, it: NewMessage, model: Option<&str>) -> NewMessage {
        let model = model.filter(|_| !self.caller.is_browser());
        it.with_model(model.map(str::to_owned))
    }

    /// A checked message for a session.
    pub(in crate::http) fn message(&self, session_id: SessionId, it: NewMessage) -> PostMessage {
        PostMessage {
            tenant: self.tenant(),
            session_id,
            message: it,
            idempotency_key: None,
            versions: None,
            trace: self.trace,
            other_events: Vec::new(),
        }
    }

    /// Posts a message.
    pub(in crate::http) async fn post(&self, post: &PostMessage) -> Result<AppliedTurn, ApiError> {
        // Before the message is accepted: the stream must have the first events of the run.
        let subscription = self.service.bus.subscribe(post.session_id);
        let posted = in_time(post_message(self.service, post)).await?;
        Ok(AppliedTurn::new(posted, subscription))
    }

    /// Records answers to waiting calls. The same answers again have no effect.
    pub(in crate::http) async fn answer(
        &self,
        session_id: SessionId,
        answers: CallAnswers,
    ) -> Result<AppliedTurn, ApiError> {
        let (service, tenant) = (self.service, self.tenant());
        let run = find_current_run(service, tenant, session_id).await?;
        let Some(run) = run.filter(|_| !answers.is_empty()) else {
            return Err(ApiError::field(&answers.pointer, "have no answer to a waiting call"));
        };
        let answers = answers.of_waiting(&run.pending);
        let answered = answers.results();
        let subscription = service.bus.subscribe(session_id);
        let applied = self.record(session_id, answers).await?;
        let first = applied.iter().filter_map(|it| it.events).map(|events| events.first).min();
        let run_id = applied.iter().find_map(|it| it.run_ids.last().copied()).unwrap_or(run.id);
        let run = find_run(service, tenant, session_id, run_id).await?;
        let after = first.unwrap_or(run.accepted_seq) - 1;
        let is_repeated = applied.iter().all(|it| it.is_repeated);
        let followed = FollowedRun { run, is_repeated, after, stream_after: None, is_live: false };
        Ok(AppliedTurn { followed, subscription, answered, is_continued: true })
    }

    async fn record(
        &self,
        session_id: SessionId,
        answers: CallAnswers,
    ) -> Result<Vec<EventResult>, ApiError> {
        if answers.has_decision() {
            self.caller.require(BrowserScope::Decide)?;
        }
        if !answers.results().is_empty() {
            self.caller.require(BrowserScope::Post)?;
        }
        let last_pointer = answers.pointer.clone();
        let steps = answers.into_steps()?;
        let tenant = self.tenant();
        let request = PostEvents { tenant, session_id, steps, message: None, last_pointer };
        let events = ClientEvents::new(self.service, &request)?;
        Ok(in_time(events.apply_steps()).await?.unwrap_or_default())
    }

    /// Lets no new message wait for calls that the user passes over: they get the answers of the
    /// request, and a run that still waits is cancelled.
    pub(in crate::http) async fn settle_waiting(
        &self,
        session: &OpenSession,
        answers: CallAnswers,
    ) -> Result<(), ApiError> {
        if !session.is_waiting {
            return Ok(());
        }
        let (service, tenant) = (self.service, self.tenant());
        let run = find_current_run(service, tenant, session.id).await?;
        let Some(run) = run.filter(|run| !run.pending.is_empty()) else { return Ok(()) };
        if answers.answer_all(&run.pending) {
            self.record(session.id, answers.of_waiting(&run.pending)).await?;
        } else {
            self.caller.require(BrowserScope::Cancel)?;
            cancel_run(service, tenant, session.id, run.id).await?;
        }
        Ok(())
    }
}

impl OpenSession {
    pub(in crate::http) fn found(session: &Session) -> Self {
        let external_id = session.external_id.clone();
        Self { id: session.id, is_new: false, is_waiting: session.is_waiting, external_id }
    }
}

impl AppliedTurn {
    pub(in crate::http) fn new(posted: PostedRun, subscription: Subscription) -> Self {
        let (answered, is_continued) = (HashSet::new(), false);
        Self { followed: posted.into(), subscription, answered, is_continued }
    }
}
