//! Indexes that an interrupted `CREATE INDEX CONCURRENTLY` has left behind.

use sqlx::{AssertSqlSafe, PgConnection, raw_sql};

/// Drops the invalid indexes of the schema, so that a migration outside of a transaction can build its
/// index again. An index of a running `REINDEX CONCURRENTLY` is invalid too, and is kept.
pub(super) async fn drop_invalid(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    let statements: Vec<String> = sqlx::query_scalar!(
        r#"SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %I.%I', nspname, relname) AS "statement!"
           FROM pg_index JOIN pg_class c ON c.oid = indexrelid
           JOIN pg_namespace n ON n.oid = relnamespace
           WHERE NOT indisvalid AND nspname = current_schema() AND relname !~ '_cc(new|old)\d*$'"#
    )
    .fetch_all(&mut *conn)
    .await?;
    for statement in statements {
        tracing::info!(statement, "index of an interrupted migration dropped");
        // The statement comes from the database itself, which has quoted the names.
        raw_sql(AssertSqlSafe(statement)).execute(&mut *conn).await?;
    }
    Ok(())
}
