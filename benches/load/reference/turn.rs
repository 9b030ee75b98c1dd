//! One turn of the reference service.

use std::convert::Infallible;
use std::sync::{Arc, MutexGuard, PoisonError};

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::poll_fn;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use uuid::Uuid;

use super::{Failure, Reference, SessionPath, failure};

/// The capacity of the channel to the client, in pieces of the stream.
const PIECES: usize = 64;

pub(super) type Pieces = Sender<Result<Bytes, Infallible>>;

/// Sends a piece of the stream to the client. A closed connection is ignored.
pub(super) async fn pass_on(pieces: &Pieces, piece: Bytes) {
    let _ = pieces.send(Ok(piece)).await;
}

#[derive(Debug, Deserialize)]
pub(super) struct Post {
    content: String,
}

/// Stores the message, then streams the turn.
pub(super) async fn create_message(
    State(reference): State<Arc<Reference>>,
    Path(session_id): SessionPath,
    Json(post): Json<Post>,
) -> Result<Response, Failure> {
    let content = json!([{ "type": "text", "text": post.content }]).to_string();
    let statement = "INSERT INTO reference_messages (session_id, role, content)
                     VALUES ($1, 'user', ($2::text)::json)";
    sqlx::query(statement)
        .bind(session_id)
        .bind(&content)
        .execute(&reference.pool)
        .await
        .map_err(failure)?;
    let (pieces, received) = channel(PIECES);
    let turn = Turn {
        transcript: reference.transcripts().remove(&session_id).unwrap_or_default(),
        session_id,
        pieces,
    };
    let tracker = reference.turns.clone();
    tracker.spawn(async move {
        // The client detects a failure by the missing last event.
        let _ = turn.run(&reference, &content).await;
    });
    Ok(stream(received))
}

/// Opens the event stream of a session. Like a stream with a live turn, it has a channel of its own.
pub(super) async fn follow(
    State(reference): State<Arc<Reference>>,
    Path(session_id): SessionPath,
) -> Response {
    let (pieces, received) = channel(PIECES);
    pass_on(&pieces, ": open\n\n".into()).await;
    reference.followers().entry(session_id).or_default().push(pieces);
    stream(received)
}

fn stream(mut received: Receiver<Result<Bytes, Infallible>>) -> Response {
    let body = Body::from_stream(poll_fn(move |context| received.poll_recv(context)));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

struct Turn {
    session_id: Uuid,
    transcript: String,
    pieces: Pieces,
}

impl Turn {
    /// Asks the model until it calls no tool, and stores each reply.
    async fn run(mut self, reference: &Reference, content: &str) -> anyhow::Result<()> {
        self.push("user", content);
        let pieces = self.pieces.clone();
        loop {
            let reply = reference.model.ask(&self.transcript, &pieces).await?;
            let content = reply.content()?;
            let Some((id, path)) = reply.call()? else {
                self.store_answer(reference, &content).await?;
                reference.transcripts().insert(self.session_id, self.transcript);
                pass_on(&pieces, frame("agent.message", &content)).await;
                let idle = frame("session.status_idle", r#"{"stop_reason":"end_turn"}"#);
                pass_on(&pieces, idle).await;
                return Ok(());
            };
            let text = tokio::fs::read_to_string(reference.workspace.join(path)).await?;
            let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": text }]);
            self.store_call(reference, &content, &result.to_string()).await?;
            pass_on(&pieces, frame("agent.tool_result", r#"{"is_error":false}"#)).await;
        }
    }

    /// Stores a reply with a call, and the result of the call, in one statement.
    async fn store_call(
        &mut self,
        reference: &Reference,
        reply: &str,
        result: &str,
    ) -> anyhow::Result<()> {
        let statement = "INSERT INTO reference_messages (session_id, role, content)
                         VALUES ($1, 'assistant', ($2::text)::json), ($1, 'user', ($3::text)::json)";
        sqlx::query(statement)
            .bind(self.session_id)
            .bind(reply)
            .bind(result)
            .execute(&reference.pool)
            .await?;
        self.push("assistant", reply);
        self.push("user", result);
        Ok(())
    }

    async fn store_answer(&mut self, reference: &Reference, answer: &str) -> anyhow::Result<()> {
        let statement = "INSERT INTO reference_messages (session_id, role, content)
                         VALUES ($1, 'assistant', ($2::text)::json)";
        sqlx::query(statement).bind(self.session_id).bind(answer).execute(&reference.pool).await?;
        self.push("assistant", answer);
        Ok(())
    }

    fn push(&mut self, role: &str, content: &str) {
        if !self.transcript.is_empty() {
            self.transcript.push(',');
        }
        for part in [r#"{"role":""#, role, r#"","content":"#, content, "}"] {
            self.transcript.push_str(part);
        }
    }
}

fn frame(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl Reference {
    fn transcripts(&self) -> MutexGuard<'_, HashMap<Uuid, String>> {
        self.transcripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followers(&self) -> MutexGuard<'_, HashMap<Uuid, Vec<Pieces>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
