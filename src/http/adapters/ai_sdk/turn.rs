//! One request of a conversation: finds or creates its session and applies the intent of the client.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::body::{ChatAction, ChatRequest, UserMessage};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run::Run;
use crate::http::adapters::call_answers::CallAnswers;
use crate::http::adapters::fork_turn::ForkPoint;
use crate::http::adapters::turn::{AppliedTurn, MessageDraft, OpenSession, Turn};
use crate::http::error::ApiError;
use crate::service::client_tool::ClientTool;
use crate::service::content::ContentInput;
use crate::service::known_sessions::KnownConversation;
use crate::service::lookup::{find_current_run, find_run};
use crate::service::messages::{
    KnownMessage, NewMessage, PostMessage, PostedRun, find_known, withdraw_message,
};
use crate::service::{Error, Service};

/// A request of a conversation.
pub(super) struct ChatTurn<'a>(pub(super) Turn<'a>);

/// A user message of a conversation.
struct Submission {
    chat_id: String,
    session: OpenSession,
    /// The client's id of the message.
    id: String,
    /// True if the request names the message as an edited one.
    is_edit: bool,
}

/// A request for another answer to a user message.
struct Regeneration {
    chat_id: String,
    session: OpenSession,
    known: KnownMessage,
    /// The run of the answer that is replaced, if the request names it.
    replaced: Option<RunId>,
}

/// The tries of a request that races others with the same message.
const TRIES: usize = 3;

impl ChatTurn<'_> {
    /// Applies the request.
    pub(super) async fn apply(&self, request: ChatRequest) -> Result<AppliedTurn, ApiError> {
        let ChatRequest { chat_id, creation, action, answers, tools } = request;
        let (message, is_edit) = match action {
            ChatAction::Submit { message, is_edit } => (message, is_edit),
            ChatAction::Regenerate { message, replaced } => {
                match self.find_message(&chat_id, &message.id).await? {
                    Some((session, known)) => {
                        let regeneration = Regeneration { chat_id, session, known, replaced };
                        return Box::pin(self.regenerate(regeneration, message, tools)).await;
                    }
                    // The request with the message has not reached the service.
                    None => (message, false),
                }
            }
            ChatAction::Answer => {
                // Answers belong to a conversation that exists, so they create none.
                let session = self.0.find(&chat_id).await?;
                return self.0.answer(session.id, answers).await;
            }
        };
        let id = message.id.clone();
        // Before the session is created: a request that is refused leaves none.
        let message = self.check(message, tools).await?;
        // A fork may have inherited the message.
        let follows = |known: &KnownConversation| !is_edit && !known.is_fork;
        let message = match self.0.start(&creation, message, follows).await? {
            Ok(applied) => return Ok(applied),
            Err(message) => message,
        };
        let session = self.0.open(&chat_id, creation).await?;
        let submission = Submission { chat_id, session, id, is_edit };
        Box::pin(self.submit(submission, message, answers)).await
    }

    fn service(&self) -> (&Service, TenantId) {
        (self.0.service, self.0.tenant())
    }

    async fn check(
        &self,
        message: UserMessage,
        tools: Vec<ClientTool>,
    ) -> Result<NewMessage, ApiError> {
        let UserMessage { id, content, model, pointer } = message;
        let draft = MessageDraft { id: Some(id), content, tools, tool_choice: None, pointer };
        Ok(self.0.with_model(self.0.check(draft).await?, model.as_deref()))
    }

    /// Finds a message of a conversation, with its session.
    async fn find_message(
        &self,
        chat_id: &str,
        id: &str,
    ) -> Result<Option<(OpenSession, KnownMessage)>, ApiError> {
        let session = match self.0.find(chat_id).await {
            Err(ApiError::Service(Error::SessionNotFound(_))) => return Ok(None),
            found => found?,
        };
        let (service, tenant) = self.service();
        let known = find_known(service, tenant, session.id, id).await?;
        Ok(known.map(|known| (OpenSession::found(&session), known)))
    }

    /// Posts a new message, follows the run of a repeated one, or replaces an edited one.
    async fn submit(
        &self,
        chat: Submission,
        message: NewMessage,
        answers: CallAnswers,
    ) -> Result<AppliedTurn, ApiError> {
        let ((service, tenant), session_id) = (self.service(), chat.session.id);
        let post = self.0.message(session_id, message);
        let (mut answers, mut is_new, mut tries) = (Some(answers), chat.session.is_new, TRIES);
        let known = loop {
            let known = find_known(service, tenant, session_id, &chat.id);
            if let Some(known) = if is_new { None } else { known.await? } {
                break known;
            }
            if let Some(answers) = answers.take() {
                self.0.settle_waiting(&chat.session, answers).await?;
            }
            tries -= 1;
            match self.0.post(&post).await {
                // Another request with this id was faster.
                Err(ApiError::Service(Error::IdempotencyKeyReused { .. })) if tries > 0 => {
                    is_new = false;
                }
                posted => return posted,
            }
        };
        let is_replaced = match known.run_id {
            // A queued message with this content is not replaced by itself.
            Some(_) if known.content.is_none() => false,
            Some(run_id) => chat.is_edit && !self.is_newest(session_id, run_id).await?,
            // A fork inherited the message.
            None => true,
        };
        if !is_replaced {
            match self.0.post(&post).await {
                // Another content: the message was edited.
                Err(ApiError::Service(Error::IdempotencyKeyReused { .. })) => {}
                posted => return posted,
            }
        }
        let mut hash = Sha256::new();
        hash.update(chat.id.as_bytes());
        hash.update([0]);
        hash.update(post.message.content().as_str());
        let key = format!("ai-sdk-edit-{}", STANDARD.encode(hash.finalize()));
        self.replace((&chat.chat_id, &chat.session), (&chat.id, known), &key, post).await
    }

    /// Answers a user message again, in a fork that leaves out the present answer.
    async fn regenerate(
        &self,
        chat: Regeneration,
        mut message: UserMessage,
        tools: Vec<ClientTool>,
    ) -> Result<AppliedTurn, ApiError> {
        let Regeneration { chat_id, session, known, replaced } = chat;
        let (service, tenant) = self.service();
        let mut key = format!("ai-sdk-regenerate-{}", message.id);
        if let Some(run_id) = known.run_id {
            let subscription = service.bus.subscribe(session.id);
            let run = find_run(service, tenant, session.id, run_id).await?;
            // The request was received before, or the answer is being written.
            if replaced.map_or(!run.is_idle(), |replaced| replaced != run_id) {
                let posted = PostedRun { run, is_repeated: true };
                return Ok(AppliedTurn::new(posted, subscription));
            }
            key = format!("ai-sdk-regenerate-{run_id}");
        }
        if let Some(content) = &known.content {
            // The stored content, whatever the client has sent again.
            let stored = serde_json::from_str::<ContentInput>(content.as_str());
            message.content = stored.map_err(|error| ApiError::Internal(error.to_string()))?;
        }
        let id = message.id.clone();
        let post = self.0.message(session.id, self.check(message, tools).await?);
        self.replace((&chat_id, &session), (&id, known), &key, post).await
    }

    /// Replaces a known message: a fork that ends before it takes over the conversation. A message that
    /// is still queued is withdrawn instead, so that the answers before it stay.
    async fn replace(
        &self,
        (chat_id, session): (&str, &OpenSession),
        (id, known): (&str, KnownMessage),
        key: &str,
        post: PostMessage,
    ) -> Result<AppliedTurn, ApiError> {
        self.0.check_fork()?;
        let ((service, tenant), session_id) = (self.service(), session.id);
        let mut is_in_history = known.content.is_some();
        if let (false, Some(run_id)) = (is_in_history, known.run_id) {
            if withdraw_message(service, tenant, session_id, run_id).await? {
                return self.0.post(&post).await;
            }
            // Its run has started meanwhile.
            let known = find_known(service, tenant, session_id, id).await?;
            is_in_history = known.is_some_and(|known| known.content.is_some());
        }
        let before = is_in_history.then(|| id.to_owned());
        let point = ForkPoint { session_id, external_id: Some(chat_id), before, key: Some(key) };
        self.0.post_into_fork(point, post).await
    }

    async fn is_newest(&self, session_id: SessionId, run_id: RunId) -> Result<bool, ApiError> {
        let (service, tenant) = self.service();
        let current = find_current_run(service, tenant, session_id).await?;
        Ok(current.is_some_and(|run: Run| run.id == run_id))
    }
}
