//! Who owns sessions.

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::SessionId;

/// The name of a session's owner; none if the session is gone.
pub async fn name_of_owner(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<Option<String>, StoreError> {
    let name = sqlx::query_scalar!(
        "SELECT tenants.name FROM sessions JOIN tenants ON tenants.id = sessions.tenant_id
         WHERE sessions.id = $1",
        session_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(name)
}
