//! Usage and cost of model requests.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use super::paging::{cursor, page_limit, parse_cursor};
use crate::domain::budget::Budget;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::quota::QuotaUse;
use crate::domain::usage::Spending;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::state::Api;
use crate::service::paging::CursorSource;
use crate::service::quotas::list_quota_uses;
use crate::service::usage::{TenantUsageQuery, session_usage, tenant_usage};
use crate::store::usage::{Days, Group, GroupBy as By};

/// The number of days of a query without `from`.
const USUAL_DAYS: i32 = 30;
/// The largest number of days of a query.
const MAX_DAYS: i32 = 366;
/// The key of the group of all deleted sessions.
const DELETED: &str = "deleted";

/// The usage of a session.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct SessionUsage {
    /// `session_usage`.
    r#type: &'static str,
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// The usage of all its model requests.
    total: Spending,
    /// The budget of the session.
    budget: Budget,
    /// The usage of each model.
    by_model: Vec<GroupUsage>,
    /// The usage of each run, oldest first.
    by_run: Page<RunUsage>,
}

/// The usage of one run.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RunUsage {
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// The usage.
    #[serde(flatten)]
    spent: Spending,
    #[serde(skip)]
    accepted_seq: i64,
}

/// The usage of one group.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct GroupUsage {
    /// The day, the model, or the id of the session; `deleted` for all deleted sessions.
    key: String,
    /// The usage.
    #[serde(flatten)]
    spent: Spending,
}

impl From<Group> for GroupUsage {
    fn from(Group { key, spent }: Group) -> Self {
        Self { key, spent }
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct GetSessionUsage {
    /// The number of runs per page, 1 to 200; 50 by default.
    limit: Option<i64>,
    /// The `next_cursor` of `by_run` on the page before.
    after: Option<String>,
}

/// Adds up the usage and cost of a session's model requests: in total, by model and by run.
#[utoipa::path(
    get, path = "/sessions/{session_id}/usage", operation_id = "get_session_usage", tag = "usage",
    params(("session_id" = String, Path, description = "The session."), GetSessionUsage),
    responses(
        (status = 200, description = "The usage.", body = SessionUsage),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_session_usage(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: Params<GetSessionUsage>,
) -> Result<Json<SessionUsage>, ApiError> {
    let SessionPath(session_id) = path;
    let Params(GetSessionUsage { limit, after }) = query;
    let limit = page_limit(limit)?;
    let after = cursor(after, "after")?.unwrap_or(0);
    let usage = session_usage(&api.service, caller.tenant, session_id, after, limit).await?;
    let runs = usage.runs.into_iter().map(|run| RunUsage {
        run_id: run.run_id,
        spent: run.spent,
        accepted_seq: run.accepted_seq,
    });
    Ok(Json(SessionUsage {
        r#type: "session_usage",
        session_id,
        total: usage.total,
        budget: usage.budget,
        by_model: usage.by_model.into_iter().map(GroupUsage::from).collect(),
        by_run: Page::new(runs.collect(), limit, |run| run.accepted_seq.to_string()),
    }))
}

/// The grouping of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum GroupBy {
    /// By day, in UTC.
    #[default]
    Day,
    /// By model.
    Model,
    /// By session.
    Session,
}

impl From<GroupBy> for By {
    fn from(by: GroupBy) -> Self {
        match by {
            GroupBy::Day => Self::Day,
            GroupBy::Model => Self::Model,
            GroupBy::Session => Self::Session,
        }
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct GetUsage {
    /// The first day, in UTC; 29 days before the last day by default.
    #[param(value_type = Option<String>, format = Date)]
    from: Option<Date>,
    /// The last day, inclusive; today by default.
    #[param(value_type = Option<String>, format = Date)]
    to: Option<Date>,
    /// The grouping; by day by default.
    group_by: Option<GroupBy>,
    /// The number of groups per page, 1 to 200; 50 by default.
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    after: Option<String>,
}

/// The usage of a tenant in a period.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TenantUsage {
    /// `usage`.
    r#type: &'static str,
    /// The first day, in UTC.
    #[schema(value_type = String, format = Date)]
    from: Date,
    /// The last day, inclusive.
    #[schema(value_type = String, format = Date)]
    to: Date,
    /// The usage of all model requests of the period.
    total: Spending,
    /// The grouping.
    group_by: GroupBy,
    /// The use of each quota of the tenant at the time of the request, whatever the period is.
    quotas: Vec<QuotaUse>,
    /// The groups, in the order of their keys.
    #[serde(flatten)]
    groups: Page<GroupUsage>,
}

/// Adds up the usage and cost of all model requests in a period, by day, model or session. A request
/// counts on the day on which it ended.
#[utoipa::path(
    get, path = "/usage", operation_id = "get_usage", tag = "usage",
    params(GetUsage),
    responses(
        (status = 200, description = "The usage.", body = TenantUsage),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_usage(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<GetUsage>,
) -> Result<Json<TenantUsage>, ApiError> {
    let Params(GetUsage { from, to, group_by, limit, after }) = query;
    let limit = page_limit(limit)?;
    let days = days(from, to)?;
    let group_by = group_by.unwrap_or_default();
    let after = after.map(|after| key(group_by, after)).transpose()?;
    let query = TenantUsageQuery { days, group_by: group_by.into(), after, limit };
    let usage = tenant_usage(&api.service, caller.tenant, &query).await?;
    let quotas = list_quota_uses(&api.service, caller.tenant).await?;
    let groups = usage.groups.into_iter().map(GroupUsage::from).collect();
    Ok(Json(TenantUsage {
        r#type: "usage",
        from: days.from,
        to: days.to,
        total: usage.total,
        group_by,
        quotas,
        groups: Page::new(groups, limit, |group: &GroupUsage| group.key.clone()),
    }))
}

/// The period of a query.
fn days(from: Option<Date>, to: Option<Date>) -> Result<Days, ApiError> {
    let to = to.unwrap_or_else(|| Timestamp::now().to_zoned(TimeZone::UTC).date());
    let before = Span::new().days(i64::from(USUAL_DAYS - 1));
    let from = match from {
        Some(from) => from,
        None => to.checked_sub(before).map_err(|_| ApiError::query("to", "is too early"))?,
    };
    if from > to {
        return Err(ApiError::query("from", "is later than `to`"));
    }
    let length = to.since(from).map_or(i32::MAX, |span| span.get_days());
    if length >= MAX_DAYS {
        return Err(ApiError::query("from", "is more than 366 days before `to`"));
    }
    Ok(Days { from, to })
}

/// The key of a cursor. The ids of sessions have another form in the database.
fn key(by: GroupBy, after: String) -> Result<String, ApiError> {
    match by {
        GroupBy::Session if after == DELETED => Ok(after),
        GroupBy::Session => Ok(parse_cursor::<SessionId>(&after, "after")?.as_uuid().to_string()),
        GroupBy::Day | GroupBy::Model if after.contains('\0') => {
            Err(CursorSource::Parameter("after").refuse("has a NUL character").into())
        }
        GroupBy::Day | GroupBy::Model => Ok(after),
    }
}
