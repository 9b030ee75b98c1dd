//! On whose behalf a call is made.

use super::ToolError;
use crate::domain::ids::{SessionId, TenantId};
use crate::store::StoreError;
use crate::store::connections::{Connections, Lent};
use crate::store::tenants::{name_of_owner, owner};

/// The name of a caller who belongs to no session.
const LOCAL: &str = "local";

/// The owner of the session that a call belongs to, if it belongs to one.
#[derive(Debug, Clone, Default)]
pub struct Caller(Option<(Connections, SessionId)>);

impl Caller {
    /// The owner of a session.
    pub fn of(pool: Connections, session_id: SessionId) -> Self {
        Self(Some((pool, session_id)))
    }

    /// A connection, and the owner whose rows are meant; none for a caller who has none.
    pub(in crate::tools) async fn rows(&self) -> Result<Option<(Lent, TenantId)>, StoreError> {
        let Some((pool, session_id)) = &self.0 else { return Ok(None) };
        let mut conn = pool.acquire().await?;
        let owner = owner(&mut conn, *session_id).await?;
        Ok(owner.map(|owner| (conn, owner)))
    }

    /// The owner's name. It is looked up for each call: few calls ask.
    pub async fn name(&self) -> Result<String, ToolError> {
        let Some((pool, session_id)) = &self.0 else { return Ok(LOCAL.to_owned()) };
        let found = async {
            let mut conn = pool.acquire().await?;
            let name = name_of_owner(&mut conn, *session_id).await?;
            conn.give_back();
            Ok::<_, StoreError>(name)
        };
        let name = found.await.map_err(|error| {
            tracing::warn!(%error, "the owner of a session cannot be told");
            ToolError::Failed("the user cannot be looked up now".to_owned())
        })?;
        Ok(name.unwrap_or_else(|| LOCAL.to_owned()))
    }
}
