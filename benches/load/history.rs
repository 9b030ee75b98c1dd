//! Measures the cost of a turn in sessions with long histories.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::client::Connection;
use crate::drive::{Client, TEXT, measure};
use crate::process::Process;
use crate::report::sample::Sample;
use crate::stack::Stack;

/// The history lengths, in messages.
pub(crate) const LENGTHS: [i32; 3] = [10, 1_000, 5_000];

/// Concurrent clients.
const CLIENTS: usize = 4;
/// Measured turns per session, few enough that its length hardly changes.
const TURNS_OF_SESSION: usize = 5;

/// Measures turns in sessions with a history of this length. Each session has one turn before the
/// measurement, so that an ongoing conversation is measured.
pub(crate) async fn by_history(
    stack: &Stack,
    server: &Process,
    length: i32,
    sessions_of_client: usize,
) -> anyhow::Result<Sample> {
    let mut conn = stack.connect().await?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut connection = Connection::open(server.address).await?;
        let mut sessions = Vec::new();
        for _ in 0..sessions_of_client {
            let session = connection.create_session().await?;
            fill(&mut conn, &session, length).await?;
            connection.turn(&session, TEXT).await?;
            sessions.push(session);
        }
        clients.push(Client { connection, sessions, turns_of_session: TURNS_OF_SESSION });
    }
    measure(stack, server, clients).await
}

/// Inserts a history into a session, as if runs had written it.
async fn fill(conn: &mut PgConnection, session: &str, length: i32) -> anyhow::Result<()> {
    let session: Uuid = session.trim_start_matches("ses_").parse()?;
    let run = Uuid::now_v7();
    sqlx::query(
        "WITH run AS (
             INSERT INTO runs (id, session_id, tenant_id, status, accepted_seq, message_id, input,
                               fingerprint, finished_at)
             SELECT $2, id, tenant_id, 'completed', 0, 'filler', '[]', '', now()
             FROM sessions WHERE id = $1
         )
         UPDATE sessions SET last_message_seq = $3 WHERE id = $1",
    )
    .bind(session)
    .bind(run)
    .bind(length)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        r#"INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id,
                                 content, stop_reason)
           SELECT s.id, n, s.tenant_id, $2, 1,
                  CASE WHEN n % 2 = 1 THEN 'user' ELSE 'assistant' END,
                  'filler-' || n,
                  '[{"type":"text","text":"Something that was said before, and that is about as '
                      'long as what people say and hear when they talk of files and dates."}]',
                  CASE WHEN n % 2 = 0 THEN 'end_turn' END
           FROM sessions s, generate_series(1, $3) n
           WHERE s.id = $1"#,
    )
    .bind(session)
    .bind(run)
    .bind(length)
    .execute(conn)
    .await?;
    Ok(())
}
