//! The state of a conversation, and its live run.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::body::AgUiConnectInput;
use super::encoder::{AgUiStream, frames};
use super::event::AgUiEvent;
use super::mapper::Mapper;
use super::messages::messages;
use crate::domain::browser_token::BrowserScope;
use crate::domain::run::Run;
use crate::domain::trace::Trace;
use crate::http::adapters::run_stream::stream_run;
use crate::http::adapters::turn::Turn;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::run_response::FollowedRun;
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::response::streamed;
use crate::service::Error;
use crate::service::lookup::{find_current_run, find_run};
use crate::service::messages::PostedRun;
use crate::service::turns::list_turns;

/// The maximum number of turns of a snapshot.
const MAX_TURNS: i64 = 200;

/// Streams a snapshot of the messages and of the state of a conversation, and then its live run from its
/// beginning.
///
/// The snapshot has the newest 200 turns; of a live run only the user message. Closing the connection
/// does not stop the run.
#[utoipa::path(
    post, path = "/ag-ui/connect", operation_id = "connect_ag_ui_thread", tag = "ag_ui",
    request_body = AgUiConnectInput,
    responses(
        (status = 200, description = "The snapshots, and the events of the live run.", body = String, content_type = "text/event-stream"),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn connect_ag_ui_thread(
    State(api): State<Arc<Api>>,
    caller: Caller,
    Extension(trace): Extension<Trace>,
    body: LargeJsonBody<AgUiConnectInput>,
) -> Result<Response, ApiError> {
    caller.require(BrowserScope::Read)?;
    let LargeJsonBody(input, body_permits) = body;
    drop(body_permits);
    let (service, tenant) = (&api.service, caller.tenant);
    let turn = Turn { service, caller: &caller, trace, bytes: 0 };
    let session = match turn.find(&input.thread_id).await {
        // A conversation without a message yet, or one of another user.
        Err(ApiError::Service(Error::SessionNotFound(_))) => {
            return Ok(idle(&input, snapshots(Vec::new(), &json!([])), None));
        }
        found => found?,
    };
    // Before the turns are read: later events must not be missed.
    let subscription = service.bus.subscribe(session.id);
    let turns = list_turns(service, tenant, session.id, MAX_TURNS).await?;
    let live = turns.iter().find(|turn| turn.is_live).map(|turn| turn.run_id);
    let (messages, todos) = messages(&turns);
    let snapshots = snapshots(messages, &todos);
    let Some(run_id) = live else {
        let run = find_current_run(service, tenant, session.id).await?;
        return Ok(idle(&input, snapshots, run.as_ref()));
    };
    let run = find_run(service, tenant, session.id, run_id).await?;
    let permit = api.stream_permit(&caller)?;
    let encoder = AgUiStream::new(Mapper::new(input.ids(), None), snapshots);
    let followed = FollowedRun::from(PostedRun { run, is_repeated: true });
    let stream = stream_run(&api, tenant, &followed, (subscription, permit), encoder);
    Ok(streamed(stream, StreamFormat::EventStream))
}

fn snapshots(messages: Vec<Value>, todos: &Value) -> Vec<AgUiEvent> {
    let snapshot = json!({ "todos": todos });
    vec![AgUiEvent::MessagesSnapshot { messages }, AgUiEvent::StateSnapshot { snapshot }]
}

/// The complete stream of a conversation in which nothing runs. A run may wait for the client.
fn idle(input: &AgUiConnectInput, snapshots: Vec<AgUiEvent>, run: Option<&Run>) -> Response {
    let mapper = Mapper::new(input.ids(), run);
    let waiting = run.map(|run| run.pending.iter().map(|call| call.tool_use_id.clone()));
    let waiting: Vec<String> = waiting.into_iter().flatten().collect();
    let outcome =
        if waiting.is_empty() { json!({ "type": "success" }) } else { mapper.waiting(&waiting) };
    let mut events = vec![mapper.start()];
    events.extend(snapshots);
    events.push(mapper.finished(outcome));
    streamed(frames(&events).into(), StreamFormat::EventStream)
}
