//! The caller of a tool.

use sqlx::PgConnection;

use super::error::ToolError;
use crate::domain::ids::{SessionId, TenantId};
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::tenants::{name_of_owner, name_of_user, owner};

/// The name of a caller without a session.
const LOCAL: &str = "local";

/// The owner of the session that a call belongs to, if any.
#[derive(Debug, Clone, Default)]
pub struct Caller(Option<(Connections, SessionId)>);

impl Caller {
    /// The owner of a session.
    pub fn of(pool: Connections, session_id: SessionId) -> Self {
        Self(Some((pool, session_id)))
    }

    /// Runs `work` on a connection, with the ID of the owner. Returns `None`, without running it,
    /// for a caller without a session. An error closes the connection.
    pub(in crate::tools) async fn with_owner<T, E>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection, TenantId) -> Result<T, E>,
    ) -> Result<Option<T>, E>
    where
        E: From<StoreError> + From<sqlx::Error>,
    {
        let Some((pool, session_id)) = &self.0 else { return Ok(None) };
        pool.with(async |conn| match owner(conn, *session_id).await? {
            Some(owner) => work(conn, owner).await.map(Some),
            None => Ok(None),
        })
        .await
    }

    /// Returns the name of the owner, which all users of a tenant share. It is read for each call,
    /// because few calls need it.
    pub async fn owner_name(&self) -> Result<String, ToolError> {
        self.name(async |conn, session_id| name_of_owner(conn, session_id).await).await
    }

    /// Returns the name of the session's user: the name that its client gave, or that of the token
    /// or the API key that created the session, or else the name of the owner.
    pub async fn user_name(&self) -> Result<String, ToolError> {
        self.name(async |conn, session_id| name_of_user(conn, session_id).await).await
    }

    async fn name(
        &self,
        find: impl AsyncFn(&mut PgConnection, SessionId) -> Result<Option<String>, StoreError>,
    ) -> Result<String, ToolError> {
        let Some((pool, session_id)) = &self.0 else { return Ok(LOCAL.to_owned()) };
        let found = pool.with(async |conn| find(conn, *session_id).await);
        let name = found.await.map_err(|error| {
            tracing::warn!(%error, "user of a session could not be read");
            ToolError::Failed("the user cannot be looked up now".to_owned())
        })?;
        Ok(name.unwrap_or_else(|| LOCAL.to_owned()))
    }
}
