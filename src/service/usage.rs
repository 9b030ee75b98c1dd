//! Usage and cost of model requests, by session and by tenant.

use sqlx::PgConnection;

use super::error::Error;
use super::paging::CursorSource;
use super::state::Service;
use crate::domain::budget::Budget;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::usage::Spending;
use crate::store::sessions::{find, last_seq};
use crate::store::usage::{
    Days, Group, GroupBy, RunUsage, UsageSelection, list, list_runs, of_session,
};

/// The largest number of models in the usage of a session; a session usually has one.
const MAX_MODELS: i64 = 100;

/// The usage of a session.
#[derive(Debug)]
pub(crate) struct SessionUsage {
    /// All requests of the session.
    pub(crate) total: Spending,
    /// The budget of the session.
    pub(crate) budget: Budget,
    /// The usage of each model.
    pub(crate) by_model: Vec<Group>,
    /// The usage of each run of the page, oldest first, and of one more if there is one.
    pub(crate) runs: Vec<RunUsage>,
}

/// Adds up the usage of a session. The page of runs begins after this run and has `limit` items.
pub(crate) async fn session_usage(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    after: i64,
    limit: i64,
) -> Result<SessionUsage, Error> {
    let missing = || Error::SessionNotFound(session_id.to_string());
    let read = async |conn: &mut PgConnection| {
        let session = find(conn, tenant, session_id).await?.ok_or_else(missing)?;
        let newest = last_seq(conn, tenant, session_id).await?.ok_or_else(missing)?;
        CursorSource::Parameter("after").check_number(after, newest)?;
        let total = of_session(conn, tenant, session_id).await?.ok_or_else(missing)?;
        let runs = list_runs(conn, session_id, after, limit + 1).await?;
        let selection = UsageSelection {
            tenant,
            session_id: Some(session_id),
            days: None,
            by: Some(GroupBy::Model),
            after: None,
            limit: MAX_MODELS,
        };
        let by_model = list(conn, selection).await?;
        Ok(SessionUsage { total, budget: session.settings.budget, by_model, runs })
    };
    service.pool.with(tenant, read).await
}

/// A query for the usage of a tenant.
#[derive(Debug)]
pub(crate) struct TenantUsageQuery {
    /// The days.
    pub(crate) days: Days,
    /// The grouping.
    pub(crate) group_by: GroupBy,
    /// The key of the last group of the page before.
    pub(crate) after: Option<String>,
    /// The number of groups of the page.
    pub(crate) limit: i64,
}

/// The usage of a tenant.
#[derive(Debug)]
pub(crate) struct TenantUsage {
    /// All requests of the days.
    pub(crate) total: Spending,
    /// The groups of the page, in the order of their keys, and one more if there is one.
    pub(crate) groups: Vec<Group>,
}

/// Adds up the usage of a tenant.
pub(crate) async fn tenant_usage(
    service: &Service,
    tenant: TenantId,
    query: &TenantUsageQuery,
) -> Result<TenantUsage, Error> {
    let TenantUsageQuery { days, group_by, after, limit } = query;
    let days = Some(*days);
    let all = UsageSelection { tenant, session_id: None, days, by: None, after: None, limit: 1 };
    let by_group =
        UsageSelection { by: Some(*group_by), after: after.as_deref(), limit: limit + 1, ..all };
    let read = async |conn: &mut PgConnection| {
        let total = list(conn, all).await?.pop().map(|group| group.spent);
        let groups = list(conn, by_group).await?;
        Ok(TenantUsage { total: total.unwrap_or_default(), groups })
    };
    service.pool.with(tenant, read).await
}
