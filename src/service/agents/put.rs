//! Creating an agent, or its next version.

use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::agent::{Agent, name_taken};
use super::profile::AgentProfile;
use super::resolve::check_profile;
use super::shared;
use crate::domain::agent::AgentName;
use crate::domain::ids::TenantId;
use crate::domain::quota::{QuotaLimits, QuotaResource};
use crate::service::agent_error::AgentError;
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::quotas::{check_needs, measured_limits};
use crate::service::state::Service;
use crate::service::transaction::in_transaction;
use crate::store::agents::{MAX_AGENTS, MAX_VERSIONS, StoredAgent, count, find, insert, lock};

/// A request to create an agent or its next version.
pub(crate) struct PutAgent<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) name: &'a AgentName,
    /// The versions of which the agent must have one; none for any.
    pub(crate) expected: Option<Vec<i64>>,
    /// True if the agent must not exist.
    pub(crate) expects_none: bool,
}

/// An agent after a [`PutAgent`] request.
pub(crate) struct PutOutcome {
    pub(crate) agent: Agent,
    pub(crate) is_new: bool,
}

/// A checked profile in the form in which it is stored.
struct NewProfile {
    text: Box<RawValue>,
    description: Option<String>,
}

/// Stores a profile as an agent's next version, or as the first version of a new agent. A profile
/// that equals the newest version makes no new version.
pub(crate) async fn put_agent(
    service: &Service,
    request: PutAgent<'_>,
    profile: AgentProfile,
) -> Result<PutOutcome, Error> {
    profile.check()?;
    let new = NewProfile { text: profile.text()?, description: profile.description.clone() };
    check_profile(service, profile).await?;
    let limits = measured_limits(service, request.tenant).await?;
    let put = in_transaction(service, request.tenant, async |conn| {
        request.put(service, &new, &limits, conn).await
    });
    in_time(put).await
}

impl PutAgent<'_> {
    async fn put(
        &self,
        service: &Service,
        new: &NewProfile,
        limits: &QuotaLimits,
        conn: &mut PgConnection,
    ) -> Result<PutOutcome, Error> {
        lock(conn, self.tenant).await?;
        let before = find(conn, self.tenant, self.name, None).await?;
        self.check(service, before.as_ref())?;
        let is_new = before.is_none();
        match before {
            Some(before) if before.profile.get() == new.text.get() => {
                let agent = Agent::stored(self.name.clone(), before);
                return Ok(PutOutcome { agent, is_new });
            }
            Some(StoredAgent { version, .. }) if version >= MAX_VERSIONS => {
                return Err(AgentError::TooManyVersions(MAX_VERSIONS).into());
            }
            None if count(conn, self.tenant).await? >= MAX_AGENTS => {
                return Err(AgentError::TooMany(MAX_AGENTS).into());
            }
            Some(_) | None => {}
        }
        let bytes = i64::try_from(new.text.get().len()).unwrap_or(i64::MAX);
        let needs = [(QuotaResource::AgentVersions, 1), (QuotaResource::StoredBytes, bytes)];
        check_needs(conn, self.tenant, limits, &needs).await?;
        insert(conn, self.tenant, self.name, new.description.as_deref(), &new.text).await?;
        let missing = || Error::Internal(format!("the agent {} was not stored", self.name));
        let stored = find(conn, self.tenant, self.name, None).await?.ok_or_else(missing)?;
        Ok(PutOutcome { agent: Agent::stored(self.name.clone(), stored), is_new })
    }

    /// Refuses the name of a shared agent, and a version that the client does not expect.
    fn check(&self, service: &Service, before: Option<&StoredAgent>) -> Result<(), Error> {
        let agents = service.defaults.agents.current();
        let shared = shared::find(&agents, self.name);
        if let (None, Some(agent)) = (before, shared) {
            return Err(name_taken(self.name, agent.source));
        }
        let version = before.map(|before| i64::from(before.version));
        let is_expected = match &self.expected {
            Some(versions) => version.is_some_and(|version| versions.contains(&version)),
            None => true,
        };
        if !is_expected || (version.is_some() && self.expects_none) {
            return Err(Error::VersionMismatch);
        }
        Ok(())
    }
}
