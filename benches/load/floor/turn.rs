//! One turn of the baseline service (the floor).

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
use tokio::sync::mpsc::{Sender, channel};
use uuid::Uuid;

use super::{Failure, Floor, SessionPath, failure};

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
    State(floor): State<Arc<Floor>>,
    Path(session_id): SessionPath,
    Json(post): Json<Post>,
) -> Result<Response, Failure> {
    let content = json!([{ "type": "text", "text": post.content }]).to_string();
    let statement = "INSERT INTO floor_messages (session_id, role, content)
                     VALUES ($1, 'user', ($2::text)::json)";
    sqlx::query(statement)
        .bind(session_id)
        .bind(&content)
        .execute(&floor.pool)
        .await
        .map_err(failure)?;
    let (pieces, mut received) = channel::<Result<Bytes, Infallible>>(PIECES);
    let turn = Turn {
        transcript: floor.transcripts().remove(&session_id).unwrap_or_default(),
        session_id,
        pieces,
    };
    let tracker = floor.turns.clone();
    tracker.spawn(async move {
        // The client detects a failure by the missing last event.
        let _ = turn.run(&floor, &content).await;
    });
    let body = Body::from_stream(poll_fn(move |context| received.poll_recv(context)));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

struct Turn {
    session_id: Uuid,
    transcript: String,
    pieces: Pieces,
}

impl Turn {
    async fn run(mut self, floor: &Floor, content: &str) -> anyhow::Result<()> {
        self.push("user", content);
        let pieces = self.pieces.clone();
        let reply = floor.model.ask(&self.transcript, &pieces).await?;
        let asked = reply.content()?;
        let (id, path) = reply.call()?;
        let text = tokio::fs::read_to_string(floor.workspace.join(path)).await?;
        let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": text }]);
        let result = result.to_string();
        let statement = "INSERT INTO floor_messages (session_id, role, content)
                         VALUES ($1, 'assistant', ($2::text)::json), ($1, 'user', ($3::text)::json)";
        sqlx::query(statement)
            .bind(self.session_id)
            .bind(&asked)
            .bind(&result)
            .execute(&floor.pool)
            .await?;
        self.push("assistant", &asked);
        self.push("user", &result);
        pass_on(&pieces, frame("agent.tool_result", r#"{"is_error":false}"#)).await;

        let reply = floor.model.ask(&self.transcript, &pieces).await?;
        let content = reply.content()?;
        let statement = "INSERT INTO floor_messages (session_id, role, content)
                         VALUES ($1, 'assistant', ($2::text)::json)";
        sqlx::query(statement).bind(self.session_id).bind(&content).execute(&floor.pool).await?;
        self.push("assistant", &content);
        floor.transcripts().insert(self.session_id, self.transcript);
        pass_on(&pieces, frame("agent.message", &content)).await;
        pass_on(&pieces, frame("session.status_idle", r#"{"stop_reason":"end_turn"}"#)).await;
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

impl Floor {
    fn transcripts(&self) -> MutexGuard<'_, HashMap<Uuid, String>> {
        self.transcripts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
