//! The history of a conversation as messages of the protocol.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::mapper::Mapper;
use super::parts::parts;
use super::profile::{Profile, ProfileQuery};
use super::ui_message::{UiMessage, UiMessages, UiRole};
use crate::domain::ids::SessionId;
use crate::http::adapters::event::{RunEvent, joined};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::ChatPath;
use crate::http::extract::query::Params;
use crate::http::state::Api;
use crate::service::sessions::find_by_client_id;
use crate::service::turns::{ConversationTurn, list_turns};

/// The maximum number of turns of a history.
const MAX_TURNS: i64 = 200;

/// Lists the messages of a conversation for `useChat`: the newest 200 turns, oldest first.
///
/// While a run is active or queued, the list ends with its user message; the stream of the conversation
/// has the whole answer from its beginning.
#[utoipa::path(
    get, path = "/ai-sdk/chat/{chat_id}/messages", operation_id = "list_chat_messages", tag = "ai_sdk",
    params(("chat_id" = String, Path, description = "The id of the conversation."), ProfileQuery),
    responses(
        (status = 200, description = "The messages (`UIMessage[]`).", body = UiMessages),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_chat_messages(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: ChatPath,
    query: Params<ProfileQuery>,
) -> Result<Json<UiMessages>, ApiError> {
    let (ChatPath(chat_id), Params(query)) = (path, query);
    // The messages of version 6 have the decisions on calls; only its stream does not.
    let profile = match query.profile()? {
        Profile::V5 => Profile::V5,
        Profile::V6 | Profile::V7 => Profile::V7,
    };
    let session = find_by_client_id(&api.service, caller.tenant, &chat_id).await?;
    let turns = list_turns(&api.service, caller.tenant, session.id, MAX_TURNS).await?;
    let mut messages = Vec::new();
    for turn in turns {
        messages.push(user_message(&turn, session.id));
        if turn.is_live {
            break;
        }
        let reply = reply(&turn, profile);
        if !reply.parts.is_empty() {
            messages.push(reply);
        }
    }
    Ok(Json(UiMessages(messages)))
}

fn user_message(turn: &ConversationTurn, session_id: SessionId) -> UiMessage {
    let parts = match &turn.input {
        // Of the conversation, not of the session that it was forked from: the client may be a browser.
        Some(content) => parts(content, session_id),
        // A queued message is not in the history yet.
        None => event_parts(turn),
    };
    UiMessage { id: turn.message_id.clone(), role: UiRole::User, metadata: None, parts }
}

fn event_parts(turn: &ConversationTurn) -> Vec<Value> {
    if let Some(RunEvent::UserMessage { content }) = turn.events.first().map(RunEvent::of) {
        return vec![json!({ "type": "text", "text": joined(&content) })];
    }
    Vec::new()
}

fn reply(turn: &ConversationTurn, profile: Profile) -> UiMessage {
    let mut mapper = Mapper::new(profile, turn.session_id, turn.run_id);
    let mut message = UiMessage::assistant();
    message.apply(mapper.start());
    let mut chunks = Vec::new();
    for frame in &turn.events {
        mapper.event(RunEvent::of(frame), &mut chunks);
        chunks.drain(..).for_each(|chunk| message.apply(chunk));
    }
    message
}
