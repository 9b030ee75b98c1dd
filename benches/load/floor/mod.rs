//! The floor: a minimal hand-written service, the baseline of the comparison.
//!
//! It serves the same client with the same kind of stream, sends two requests to the same model,
//! reads the same file and stores the same history, with three inserts per turn. It has no queue,
//! no leases, no ledger, no persistent events and no recovery.

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

/// The number of database connections, the same as in the service.
const CONNECTIONS: u32 = 16;

/// The options of the floor.
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
struct Floor {
    pool: PgPool,
    model: Model,
    workspace: PathBuf,
    /// The messages of each session, as JSON text for requests.
    transcripts: Mutex<HashMap<Uuid, String>>,
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
        "CREATE TABLE IF NOT EXISTS floor_sessions (id uuid PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS floor_messages (
             id bigserial PRIMARY KEY,
             session_id uuid NOT NULL REFERENCES floor_sessions (id),
             role text NOT NULL,
             content json NOT NULL,
             created_at timestamptz NOT NULL DEFAULT now()
         )",
    ] {
        sqlx::query(table).execute(&pool).await?;
    }
    let floor = Arc::new(Floor {
        pool,
        model: Model::new(&options.model_url)?,
        workspace: options.shared_workspace,
        transcripts: Mutex::default(),
        turns: TaskTracker::new(),
    });
    let router = Router::new()
        .route("/readyz", get(async || Json("ready")))
        .route("/v1/sessions", post(create_session))
        .route("/v1/sessions/{id}/messages", post(turn::create_message))
        .with_state(floor);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&format!("the floor is at http://{}", listener.local_addr()?));
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
    State(floor): State<Arc<Floor>>,
) -> Result<Json<serde_json::Value>, Failure> {
    let id = Uuid::now_v7();
    sqlx::query("INSERT INTO floor_sessions (id) VALUES ($1)")
        .bind(id)
        .execute(&floor.pool)
        .await
        .map_err(failure)?;
    Ok(Json(serde_json::json!({ "id": id })))
}

type SessionPath = Path<Uuid>;
