//! The remaining rows of deleted sessions.

use sqlx::{AssertSqlSafe, PgPool};

/// The tables with a row that contains one of these ids, in any column and any spelling.
pub(crate) async fn tables_with(pool: &PgPool, ids: &[uuid::Uuid]) -> Vec<String> {
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables
         WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
           -- It reports the deletion to readers of the session list.
           AND table_name <> 'deleted_sessions'
         ORDER BY 1",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    assert!(names.len() > 10, "{names:?}");
    let forms = ids.iter().flat_map(|id| [id.hyphenated().to_string(), id.simple().to_string()]);
    let forms: Vec<String> = forms.map(|form| format!("%{form}%")).collect();
    let mut found = Vec::new();
    for name in names {
        let statement = format!("SELECT count(*) FROM {name} t WHERE t::text LIKE ANY ($1)");
        let query = sqlx::query_scalar(AssertSqlSafe(statement)).bind(&forms);
        let rows: i64 = query.fetch_one(pool).await.unwrap();
        if rows > 0 {
            found.push(name);
        }
    }
    found
}
