//! The read state of sessions (table `seen_files`). Steps write the rows.

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::SessionId;

/// Returns the hash of a file as the model last read it.
pub async fn find(
    conn: &mut PgConnection,
    session_id: SessionId,
    path: &str,
) -> Result<Option<Vec<u8>>, StoreError> {
    let hash = sqlx::query_scalar!(
        "SELECT hash FROM seen_files WHERE session_id = $1 AND path = $2",
        session_id.as_uuid(),
        path,
    )
    .fetch_optional(conn)
    .await?;
    Ok(hash)
}
