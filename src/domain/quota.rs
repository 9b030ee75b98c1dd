//! Quotas: limits on what a tenant keeps in the service.

use std::fmt;

use serde::Serialize;

use super::webhook::MAX_WEBHOOKS;

/// A resource with a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuotaResource {
    /// Sessions, including forks, imports and the sessions of sub-agents.
    Sessions,
    /// Bytes of messages, events and agents in the database.
    StoredBytes,
    /// Bytes of files in the folders that belong to sessions.
    WorkspaceBytes,
    /// Versions of all agents.
    AgentVersions,
    /// Webhooks.
    Webhooks,
}

impl QuotaResource {
    /// All resources.
    pub const ALL: [Self; 5] = [
        Self::Sessions,
        Self::StoredBytes,
        Self::WorkspaceBytes,
        Self::AgentVersions,
        Self::Webhooks,
    ];

    /// The resource as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::StoredBytes => "stored_bytes",
            Self::WorkspaceBytes => "workspace_bytes",
            Self::AgentVersions => "agent_versions",
            Self::Webhooks => "webhooks",
        }
    }

    /// Parses the text of a resource.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.as_str() == text)
    }

    /// True if the quota limits storage, and not a number of objects.
    pub const fn is_storage(self) -> bool {
        matches!(self, Self::StoredBytes | Self::WorkspaceBytes)
    }

    /// The limit that applies to every tenant, with and without a quota.
    pub const fn fixed_limit(self) -> Option<i64> {
        match self {
            Self::Webhooks => Some(MAX_WEBHOOKS),
            Self::Sessions | Self::StoredBytes | Self::WorkspaceBytes | Self::AgentVersions => None,
        }
    }

    /// Refuses a quota that could never apply, because it is larger than the fixed limit.
    pub fn check_limit(self, limit: Option<i64>) -> Result<(), String> {
        match (self.fixed_limit(), limit) {
            (Some(max), Some(limit)) if limit > max => Err(format!(
                "the quota {limit} for {} is over the fixed limit of {max}, which always applies",
                self.as_str()
            )),
            _ => Ok(()),
        }
    }

    /// The noun for the units, in messages.
    const fn unit(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::StoredBytes => "stored bytes",
            Self::WorkspaceBytes => "bytes of files in workspaces",
            Self::AgentVersions => "agent versions",
            Self::Webhooks => "webhooks",
        }
    }

    /// The objects that a tenant deletes to free the quota.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Sessions | Self::StoredBytes | Self::WorkspaceBytes => "sessions",
            Self::AgentVersions => "agents",
            Self::Webhooks => "webhooks",
        }
    }
}

/// The limits of a tenant; none for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaLimits([Option<i64>; 5]);

impl QuotaLimits {
    /// Returns the limit of a resource.
    pub fn get(&self, resource: QuotaResource) -> Option<i64> {
        let mut all = QuotaResource::ALL.into_iter().zip(self.0);
        all.find(|(of, _)| *of == resource).and_then(|(_, limit)| limit)
    }

    /// Sets the limit of a resource.
    pub fn set(&mut self, resource: QuotaResource, limit: Option<i64>) {
        for (of, slot) in QuotaResource::ALL.into_iter().zip(&mut self.0) {
            if of == resource {
                *slot = limit;
            }
        }
    }

    /// True if nothing is limited.
    pub fn is_open(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// True if one of these resources is limited.
    pub fn limit_any(&self, resources: &[QuotaResource]) -> bool {
        resources.iter().any(|resource| self.get(*resource).is_some())
    }
}

/// The use of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct QuotaUse {
    /// The resource.
    pub resource: QuotaResource,
    /// The used units. Absent for `workspace_bytes` without a limit, which is not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<i64>,
    /// The maximum number of units; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// A quota that does not allow a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct QuotaExceeded {
    /// The resource.
    pub resource: QuotaResource,
    /// The used units.
    pub used: i64,
    /// The units that the request needs in addition.
    pub needed: i64,
    /// The maximum number of units.
    pub limit: i64,
}

impl QuotaExceeded {
    /// Returns the refusal of a need; none if the limit allows it, or if nothing is needed.
    pub const fn check(
        resource: QuotaResource,
        used: i64,
        needed: i64,
        limit: i64,
    ) -> Option<Self> {
        if needed <= 0 || used.saturating_add(needed) <= limit {
            return None;
        }
        Some(Self { resource, used, needed, limit })
    }

    /// The refusal without a remedy. The figures follow names, so that the text is right for every
    /// number.
    fn cause(&self) -> String {
        let Self { resource, used, needed, limit } = self;
        let unit = resource.unit();
        format!(
            "the quota for {unit} would be exceeded: limit {limit}, in use {used}, needed {needed}"
        )
    }

    /// The refusal of a call that writes files, for the model. Commands are refused as well while
    /// the quota is used up, so the model can only shorten files.
    pub fn to_model(&self) -> String {
        let cause = self.cause();
        format!(
            "{cause}; to delete the contents of files in the workspace that are no longer needed, \
             overwrite them with shorter text, which is always allowed; otherwise ask the user for \
             a larger quota"
        )
    }
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cause, remedy) = (self.cause(), self.resource.remedy());
        write!(
            f,
            "{cause}; delete {remedy} that are no longer needed, or ask the operator for a larger \
             quota"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_read_as_it_is_written_and_has_a_limit_of_its_own() {
        for resource in QuotaResource::ALL {
            assert_eq!(QuotaResource::parse(resource.as_str()), Some(resource));
            assert_eq!(serde_json::to_value(resource).unwrap(), resource.as_str());
            let mut limits = QuotaLimits::default();
            assert!(limits.is_open());
            limits.set(resource, Some(7));
            let all = QuotaResource::ALL.map(|resource| limits.get(resource));
            assert_eq!(all.iter().flatten().collect::<Vec<_>>(), [&7], "{resource:?}");
            assert!(limits.limit_any(&[resource]) && !limits.is_open());
        }
    }

    #[test]
    fn a_quota_may_be_used_up_and_not_exceeded() {
        let check = |used, needed| QuotaExceeded::check(QuotaResource::Sessions, used, needed, 2);
        assert_eq!(check(1, 1), None);
        assert!(check(2, 1).is_some());
        assert!(check(i64::MAX, i64::MAX).is_some());
        // What needs no more is allowed above a quota that was lowered.
        assert_eq!((check(9, 0), check(9, -1)), (None, None));
        assert_eq!(
            check(2, 1).unwrap().to_string(),
            "the quota for sessions would be exceeded: limit 2, in use 2, needed 1; delete \
             sessions that are no longer needed, or ask the operator for a larger quota"
        );
        let files = QuotaExceeded::check(QuotaResource::WorkspaceBytes, 1, 1, 1).unwrap();
        assert_eq!(
            files.to_model(),
            "the quota for bytes of files in workspaces would be exceeded: limit 1, in use 1, \
             needed 1; to delete the contents of files in the workspace that are no longer needed, \
             overwrite them with shorter text, which is always allowed; otherwise ask the user for \
             a larger quota"
        );
    }
}
