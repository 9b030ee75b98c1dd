//! Sessions with many events.

use super::TestDatabase;

/// Adds `count` events of about 1 KB each to a session without events.
pub(crate) async fn fill_with_events(database: &TestDatabase, session: &str, count: i64) {
    let id = session.strip_prefix("ses_").unwrap();
    let pool = database.pool(1);
    let insert = r#"INSERT INTO events (session_id, seq, tenant_id, event_id, type, body)
         SELECT s.id, n, s.tenant_id, 'evt_' || n, 'agent.message',
                ('{"type":"agent.message","content":[{"type":"text","text":"'
                 || repeat(md5(n::text), 28) || '"}]}')::json
         FROM sessions s, generate_series(1, $2) n WHERE s.id = $1::uuid"#;
    let inserted = sqlx::query(insert).bind(id).bind(count).execute(&pool).await.unwrap();
    assert_eq!(inserted.rows_affected(), u64::try_from(count).unwrap());
    let update = "UPDATE sessions SET last_seq = $2 WHERE id = $1::uuid AND last_seq = 0";
    let updated = sqlx::query(update).bind(id).bind(count).execute(&pool).await.unwrap();
    assert_eq!(updated.rows_affected(), 1);
}
