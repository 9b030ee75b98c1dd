//! One request: continues a response, or a conversation like a request for a completion.

use super::find::{FoundResponse, find_response};
use super::input::ResponseRequest;
use crate::domain::ids::SessionId;
use crate::http::adapters::call_answers::CallAnswers;
use crate::http::adapters::fork_turn::ForkPoint;
use crate::http::adapters::openai::body::{CompletionAction, CompletionRequest};
use crate::http::adapters::openai::turn::CompletionTurn;
use crate::http::adapters::turn::{AppliedTurn, MessageDraft, OpenSession};
use crate::http::error::ApiError;
use crate::service::lookup::find_current_run;
use crate::service::sessions::find_session;
use crate::service::transcripts::message_place;

/// A request for a response.
pub(super) struct ResponseTurn<'a>(pub(super) CompletionTurn<'a>);

impl ResponseTurn<'_> {
    /// Applies the request.
    pub(super) async fn apply(&self, request: ResponseRequest) -> Result<AppliedTurn, ApiError> {
        let ResponseRequest { previous, request } = request;
        let turn = &self.0.turn;
        let previous = match previous {
            Some(id) => Some(find_response(turn.service, turn.tenant(), &id).await?),
            None => None,
        };
        let CompletionRequest { system, transcript, action, answers } = request;
        match (action, previous) {
            (CompletionAction::Answer, previous) => {
                let session_id = match previous {
                    Some(previous) => previous.run.session_id,
                    None => self.0.find_waiting(&transcript, &answers).await?,
                };
                self.answer(session_id, answers).await
            }
            (CompletionAction::Submit(draft), Some(previous)) => {
                Box::pin(self.continue_from(previous, draft, answers)).await
            }
            (action, None) | (action @ CompletionAction::Side(_), Some(_)) => {
                let request = CompletionRequest { system, transcript, action, answers };
                Box::pin(self.0.apply(request)).await
            }
        }
    }

    /// Answers the calls of a response. A response ends with all calls of a reply, so all of them must
    /// be answered.
    async fn answer(
        &self,
        session_id: SessionId,
        answers: CallAnswers,
    ) -> Result<AppliedTurn, ApiError> {
        let turn = &self.0.turn;
        let run = find_current_run(turn.service, turn.tenant(), session_id).await?;
        let pending = run.map(|run| run.pending).unwrap_or_default();
        let has_one = pending.iter().any(|call| answers.has(&call.tool_use_id));
        let missing = pending.iter().find(|call| has_one && !answers.has(&call.tool_use_id));
        if let Some(call) = missing {
            let problem = format!("has no output for the call {}", call.tool_use_id);
            return Err(ApiError::field(&answers.pointer, problem));
        }
        turn.answer(session_id, answers).await
    }

    /// Posts a message after a response: into its session, or into a fork if the session has gone on.
    async fn continue_from(
        &self,
        previous: FoundResponse,
        draft: MessageDraft,
        answers: CallAnswers,
    ) -> Result<AppliedTurn, ApiError> {
        let turn = &self.0.turn;
        let (service, tenant, run) = (turn.service, turn.tenant(), previous.run);
        let message = turn.check(draft).await?;
        let message = turn.with_model(message, self.0.named_model());
        let session_id = run.session_id;
        let place = message_place(service, tenant, session_id, Some(&run.message_id)).await?;
        let post = turn.message(session_id, message);
        if place.is_known && place.next.is_some() {
            // The session keeps its name: the client has not named it.
            let point = ForkPoint { session_id, external_id: None, before: place.next, key: None };
            return turn.post_into_fork(point, post).await;
        }
        let session = OpenSession::found(&find_session(service, tenant, session_id).await?);
        turn.settle_waiting(&session, answers).await?;
        turn.post(&post).await
    }
}
