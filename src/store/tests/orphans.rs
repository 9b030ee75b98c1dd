//! Rows whose session does not exist.

use sqlx::Executor as _;

use super::*;
use crate::domain::verification::{Finding, Invariant, Location};
use crate::store::verify::check_named_sessions;

/// The tables with a column that names a session, and no foreign key on it.
const UNREFERENCED: &str = "
    SELECT string_agg(c.relname, ', ' ORDER BY array_position(
        '{runs, messages, tool_calls, events, requests, seen_files}'::name[], c.relname))
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'session_id'
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
      AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f'
                        AND k.confrelid = 'sessions'::regclass AND a.attnum = ANY (k.conkey))";

/// Gives the session of a bed a row in each table without a foreign key.
async fn fill(bed: &Bed) {
    bed.posted().await;
    let run = bed.claim(WorkerId::new()).await.remove(0);
    let reply = [message(Role::Assistant, r#"[{"type":"x"}]"#)];
    let planned = [call("a")];
    let step =
        StepCommit { messages: &reply, planned: &planned, dequeues: true, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    for statement in [
        "INSERT INTO seen_files (session_id, tenant_id, path, hash)
         SELECT id, tenant_id, 'p', '' FROM sessions WHERE id = $1",
        "INSERT INTO requests (session_id, run_id, n, tenant_id, attempt, model, message_seq, form,
                               body_hash, body_length, input_tokens, cache_creation_input_tokens,
                               cache_read_input_tokens, output_tokens,
                               cache_creation_1h_input_tokens, thinking_tokens,
                               web_search_requests, web_fetch_requests, duration_ms)
         SELECT session_id, id, 1, tenant_id, 1, 'm', 1, '{}', '', 1, 0, 0, 0, 0, 0, 0, 0, 0, 1
         FROM runs WHERE session_id = $1",
    ] {
        let query = sqlx::query(statement).bind(bed.session.as_uuid());
        assert_eq!(query.execute(&bed.pool).await.unwrap().rows_affected(), 1);
    }
}

#[tokio::test]
async fn rows_without_a_session_are_found_in_every_table_without_a_foreign_key() {
    let bed = bed().await;
    let (kept, gone) = (bed.other().await, bed.other().await);
    for bed in [&bed, &kept, &gone] {
        fill(bed).await;
    }
    let mut conn = bed.pool.acquire().await.unwrap();
    let named = check_named_sessions(&mut conn, None, 10).await.unwrap();
    assert_eq!((named.findings, named.last), (Vec::new(), Some(gone.session)));

    conn.execute("SET session_replication_role = replica").await.unwrap();
    let delete = sqlx::query("DELETE FROM sessions WHERE id = $1").bind(gone.session.as_uuid());
    delete.execute(&mut *conn).await.unwrap();
    let tables: String = sqlx::query_scalar(UNREFERENCED).fetch_one(&mut *conn).await.unwrap();
    let finding = Finding {
        invariant: Invariant::SessionExists,
        place: Location::of(gone.session),
        detail: format!("the session does not exist, but has rows in {tables}"),
    };
    let first = check_named_sessions(&mut conn, None, 2).await.unwrap();
    assert_eq!((first.findings, first.last), (Vec::new(), Some(kept.session)));
    let second = check_named_sessions(&mut conn, first.last, 2).await.unwrap();
    assert_eq!((second.findings, second.last), (vec![finding], Some(gone.session)));
    let third = check_named_sessions(&mut conn, second.last, 2).await.unwrap();
    assert_eq!((third.findings, third.last), (Vec::new(), None));
}
