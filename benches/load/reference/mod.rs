//! The reference service: a minimal hand-written service, the baseline of the comparison.
//!
//! It serves the same client with the same kind of stream, sends the same requests to the same model,
//! reads the same file and stores the same history durably, with three inserts per turn of one tool
//! call. It uses the same libraries and the same allocator as the service. It has no queue, no leases,
//! no ledger, no persistent events and no recovery.

mod model;
mod turn;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use clap::Args;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::output::say;
use model::Model;
use turn::Pieces;

/// The number of database connections, as many as the two pools of the service that a turn uses.
const CONNECTIONS: u32 = 16;

/// The options of the reference service.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The database
    #[arg(long)]
    database_url: String,
    /// The model
    #[arg(long)]
    model_url: String,
    /// The folder with the file
    #[arg(long)]
    shared_workspace: PathBuf,
}

#[derive(Debug)]
struct Reference {
    pool: PgPool,
    model: Model,
    workspace: PathBuf,
    /// The messages of each session, as JSON text for requests.
    transcripts: Mutex<HashMap<Uuid, String>>,
    /// The open event streams of each session.
    followers: Mutex<HashMap<Uuid, Vec<Pieces>>>,
    turns: TaskTracker,
}

/// Serves until the process is killed.
pub(crate) async fn serve(options: Options) -> anyhow::Result<()> {
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .test_before_acquire(false)
        .connect(&options.database_url)
        .await?;
    for table in [
        "CREATE TABLE IF NOT EXISTS reference_sessions (id uuid PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS reference_messages (
             id bigserial PRIMARY KEY,
             session_id uuid NOT NULL REFERENCES reference_sessions (id),
             role text NOT NULL,
             content json NOT NULL,
             created_at timestamptz NOT NULL DEFAULT now()
         )",
    ] {
        sqlx::query(table).execute(&pool).await?;
    }
    let reference = Arc::new(Reference {
        pool,
        model: Model::new(&options.model_url)?,
        workspace: options.shared_workspace,
        transcripts: Mutex::default(),
        followers: Mutex::default(),
        turns: TaskTracker::new(),
    });
    let router = Router::new()
        .route("/readyz", get(async || Json("ready")))
        .route("/v1/sessions", post(create_session))
        .route("/v1/sessions/{id}/messages", post(turn::create_message))
        .route("/v1/sessions/{id}/events/stream", get(turn::follow))
        .with_state(reference);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&format!("the reference service is at http://{}", listener.local_addr()?));
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true); // slower, and right all the same
    });
    Ok(axum::serve(listener, router).await?)
}

type Failure = (http::StatusCode, String);

fn failure(error: impl std::fmt::Display) -> Failure {
    (http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

async fn create_session(
    State(reference): State<Arc<Reference>>,
) -> Result<Json<serde_json::Value>, Failure> {
    let id = Uuid::now_v7();
    sqlx::query("INSERT INTO reference_sessions (id) VALUES ($1)")
        .bind(id)
        .execute(&reference.pool)
        .await
        .map_err(failure)?;
    Ok(Json(serde_json::json!({ "id": id })))
}

type SessionPath = Path<Uuid>;
