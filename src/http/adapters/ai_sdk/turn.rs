//! One request of a conversation: finds or creates its session and applies the intent of the client.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::answers::Answers;
use super::body::{ChatAction, ChatRequest, UserMessage};
use crate::bus::Subscription;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::limits::Limits;
use crate::domain::run::Run;
use crate::domain::trace::Trace;
use crate::http::error::ApiError;
use crate::http::run_response::FollowedRun;
use crate::service::cancel::{cancel_run, cancel_session};
use crate::service::client_events::{ClientEvents, EventResult, PostEvents};
use crate::service::client_tool::ClientTool;
use crate::service::content::ContentInput;
use crate::service::creator::Creator;
use crate::service::deadline::in_time;
use crate::service::lookup::{find_current_run, find_run};
use crate::service::messages::{
    KnownMessage, MessageInput, NewMessage, PostMessage, PostedRun, find_known, post_message,
};
use crate::service::offload::offload;
use crate::service::session_settings::CreateSession;
use crate::service::sessions::fork::{CreateFork, ForkSource};
use crate::service::sessions::{Creation, create_session, find_by_client_id, replace_by_fork};
use crate::service::{Error, Service};

/// A request of a conversation.
pub(super) struct ChatTurn<'a> {
    pub(super) service: &'a Service,
    pub(super) creator: Creator,
    pub(super) trace: Trace,
    /// The size of the body, if it is large.
    pub(super) bytes: usize,
}

/// The run that the response follows.
pub(super) struct AppliedTurn {
    pub(super) followed: FollowedRun,
    /// Older than the effect of the request.
    pub(super) subscription: Subscription,
    /// Calls whose results the client has sent.
    pub(super) answered: HashSet<String>,
    /// True if the stream begins with answers of the client.
    pub(super) is_continued: bool,
}

/// The conversation of a request.
struct Conversation {
    chat_id: String,
    session_id: SessionId,
    is_new: bool,
    /// True if a run of the session waits for the client.
    is_waiting: bool,
    tools: Vec<ClientTool>,
}

impl ChatTurn<'_> {
    /// Applies the request.
    pub(super) async fn apply(&self, request: ChatRequest) -> Result<AppliedTurn, ApiError> {
        let ChatRequest { chat_id, creation, action, answers, tools } = request;
        match action {
            ChatAction::Submit { message, is_edit } => {
                let chat = self.open(chat_id, creation, tools).await?;
                Box::pin(self.submit(chat, message, is_edit, answers)).await
            }
            ChatAction::Regenerate { message, replaced } => {
                let chat = self.open(chat_id, creation, tools).await?;
                Box::pin(self.regenerate(chat, message, replaced, answers)).await
            }
            ChatAction::Answer => {
                // Answers belong to a conversation that exists, so they create none.
                let session = find_by_client_id(self.service, self.tenant(), &chat_id).await?;
                self.answer(session.id, answers).await
            }
        }
    }

    /// Finds or creates the session of a conversation.
    async fn open(
        &self,
        chat_id: String,
        creation: CreateSession,
        tools: Vec<ClientTool>,
    ) -> Result<Conversation, ApiError> {
        let created = create_session(self.service, &self.creator, creation, None).await?;
        let is_new = created.creation == Creation::New;
        let (session_id, is_waiting) = (created.session.id, created.session.is_waiting);
        Ok(Conversation { chat_id, session_id, is_new, is_waiting, tools })
    }

    fn tenant(&self) -> TenantId {
        self.creator.tenant
    }

    /// Posts a new message, follows the run of a repeated one, or replaces an edited one.
    async fn submit(
        &self,
        chat: Conversation,
        message: UserMessage,
        is_edit: bool,
        answers: Answers,
    ) -> Result<AppliedTurn, ApiError> {
        let (service, tenant, session_id) = (self.service, self.tenant(), chat.session_id);
        let id = message.id.clone();
        let known =
            if chat.is_new { None } else { find_known(service, tenant, session_id, &id).await? };
        let post = self.prepared(&chat, message).await?;
        let Some(known) = known else {
            self.settle_waiting(&chat, answers).await?;
            return self.post(&post).await;
        };
        let is_replaced = match known.run_id {
            Some(run_id) => is_edit && !self.is_newest(session_id, run_id).await?,
            // A fork inherited the message.
            None => true,
        };
        if !is_replaced {
            match self.post(&post).await {
                // Another content: the message was edited.
                Err(ApiError::Service(Error::IdempotencyKeyReused { .. })) => {}
                posted => return posted,
            }
        }
        let mut hash = Sha256::new();
        hash.update(id.as_bytes());
        hash.update([0]);
        hash.update(post.message.content().as_str());
        let key = format!("ai-sdk-edit-{}", STANDARD.encode(hash.finalize()));
        self.replace(&chat, (&id, &known), &key, post).await
    }

    /// Answers a user message again, in a fork that leaves out the present answer.
    async fn regenerate(
        &self,
        chat: Conversation,
        mut message: UserMessage,
        replaced: Option<RunId>,
        answers: Answers,
    ) -> Result<AppliedTurn, ApiError> {
        let (service, tenant, session_id) = (self.service, self.tenant(), chat.session_id);
        let Some(known) = find_known(service, tenant, session_id, &message.id).await? else {
            // The request with the message has not reached the service.
            return self.submit(chat, message, false, answers).await;
        };
        let mut key = format!("ai-sdk-regenerate-{}", message.id);
        if let Some(run_id) = known.run_id {
            let run = find_run(service, tenant, session_id, run_id).await?;
            // The request was received before, or the answer is being written.
            if replaced.map_or(!run.is_idle(), |replaced| replaced != run_id) {
                let subscription = service.bus.subscribe(session_id);
                return Ok(followed(PostedRun { run, is_repeated: true }, subscription));
            }
            key = format!("ai-sdk-regenerate-{run_id}");
        }
        if let Some(content) = &known.content {
            // The stored content, whatever the client has sent again.
            let stored = serde_json::from_str::<ContentInput>(content.as_str());
            message.content = stored.map_err(|error| ApiError::Internal(error.to_string()))?;
        }
        let id = message.id.clone();
        let post = self.prepared(&chat, message).await?;
        self.replace(&chat, (&id, &known), &key, post).await
    }

    /// Records answers to waiting calls. The same answers again have no effect.
    async fn answer(
        &self,
        session_id: SessionId,
        answers: Answers,
    ) -> Result<AppliedTurn, ApiError> {
        let (service, tenant) = (self.service, self.tenant());
        let nothing = format!("{}/parts", answers.pointer);
        let run = find_current_run(service, tenant, session_id).await?;
        let Some(run) = run.filter(|_| !answers.is_empty()) else {
            return Err(ApiError::field(&nothing, "have no answer to a waiting call"));
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
        answers: Answers,
    ) -> Result<Vec<EventResult>, ApiError> {
        let last_pointer = answers.pointer.clone();
        let steps = answers.into_steps()?;
        let tenant = self.tenant();
        let request = PostEvents { tenant, session_id, steps, message: None, last_pointer };
        let events = ClientEvents::new(self.service, &request)?;
        Ok(in_time(events.apply_steps()).await?.unwrap_or_default())
    }

    /// Lets no new message wait for calls that the user passes over: they get the answers of the
    /// request, and a run that still waits is cancelled.
    async fn settle_waiting(&self, chat: &Conversation, answers: Answers) -> Result<(), ApiError> {
        if !chat.is_waiting {
            return Ok(());
        }
        let (service, tenant, session_id) = (self.service, self.tenant(), chat.session_id);
        let run = find_current_run(service, tenant, session_id).await?;
        let Some(run) = run.filter(|run| !run.pending.is_empty()) else { return Ok(()) };
        if answers.answer_all(&run.pending) {
            self.record(session_id, answers.of_waiting(&run.pending)).await?;
        } else {
            cancel_run(service, tenant, session_id, run.id).await?;
        }
        Ok(())
    }

    /// Replaces a known message: a fork that ends before it takes over the conversation.
    async fn replace(
        &self,
        chat: &Conversation,
        (id, known): (&str, &KnownMessage),
        key: &str,
        mut post: PostMessage,
    ) -> Result<AppliedTurn, ApiError> {
        let (service, tenant, session_id) = (self.service, self.tenant(), chat.session_id);
        let source = ForkSource { tenant, session_id, key: Some(key) };
        // A message that was cancelled in the queue is not in the history.
        let before = known.content.is_some().then(|| id.to_owned());
        let request = CreateFork::before(before);
        let fork = replace_by_fork(service, source, &chat.chat_id, request).await?;
        // No client follows the runs of the source any more.
        cancel_session(service, tenant, session_id).await?;
        post.session_id = fork;
        self.post(&post).await
    }

    async fn is_newest(&self, session_id: SessionId, run_id: RunId) -> Result<bool, ApiError> {
        let current = find_current_run(self.service, self.tenant(), session_id).await?;
        Ok(current.is_some_and(|run: Run| run.id == run_id))
    }

    /// A message that is checked and ready to be posted.
    async fn prepared(
        &self,
        chat: &Conversation,
        message: UserMessage,
    ) -> Result<PostMessage, ApiError> {
        let UserMessage { id, content, pointer } = message;
        let input = MessageInput {
            content,
            id: Some(id),
            limits: Limits::default(),
            tool_choice: None,
            on_busy: None,
            tools: chat.tools.clone(),
            permission_mode: None,
        };
        let checked: Result<NewMessage, Error> =
            offload(self.bytes, move || input.validate()).await?;
        Ok(PostMessage {
            tenant: self.tenant(),
            session_id: chat.session_id,
            message: checked.map_err(|error| error.under(&pointer))?,
            idempotency_key: None,
            versions: None,
            trace: self.trace,
            other_events: Vec::new(),
        })
    }

    async fn post(&self, post: &PostMessage) -> Result<AppliedTurn, ApiError> {
        // Before the message is accepted: the stream must have the first events of the run.
        let subscription = self.service.bus.subscribe(post.session_id);
        let posted = in_time(post_message(self.service, post)).await?;
        Ok(followed(posted, subscription))
    }
}

fn followed(posted: PostedRun, subscription: Subscription) -> AppliedTurn {
    let (answered, is_continued) = (HashSet::new(), false);
    AppliedTurn { followed: posted.into(), subscription, answered, is_continued }
}
