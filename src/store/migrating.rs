//! Detection of a running migration.

use sqlx::PgConnection;

use super::StoreError;

/// Returns whether a process is running migrations or waits to run them. Migrations hold an
/// advisory lock on the database, whose number sqlx derives from the database's name; the service
/// takes no other lock of this kind.
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
