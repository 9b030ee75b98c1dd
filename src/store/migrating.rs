//! Whether somebody brings the schema up to date.

use sqlx::PgConnection;

use super::StoreError;

/// Whether a process is at it now, or waits to be. Migrations are made under a lock of the whole
/// database, whose number sqlx makes of the database's name; no other lock of ours is such a one.
pub async fn is_migrating(conn: &mut PgConnection) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM pg_locks
                          WHERE locktype = 'advisory' AND objsubid = 1
                            AND database = (SELECT oid FROM pg_database
                                            WHERE datname = current_database())) AS "is!""#
    )
    .fetch_one(conn)
    .await?)
}
