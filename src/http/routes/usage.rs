//! What requests to the model used and cost.

use axum::Json;
use axum::extract::State;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use super::paging::{cursor, page_limit};
use crate::domain::budget::Budget;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::usage::Spent;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::state::Api;
use crate::service::Error;
use crate::store::sessions::find;
use crate::store::usage::{
    Days, Group, GroupBy as By, Selection, list, list_runs as list_run_usage, of_session,
};

/// Days that a query without a beginning looks back, today included.
const USUAL_DAYS: i32 = 30;
/// Days that a query may ask for.
const MAX_DAYS: i32 = 366;
/// The key of all sessions that are no more.
const DELETED: &str = "deleted";
/// Models that a session is shown with; it has one.
const MAX_MODELS: i64 = 100;

/// What a session's requests used.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct SessionUsage {
    /// `session_usage`.
    r#type: &'static str,
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// All of them.
    total: Spent,
    /// What the session may spend over its whole life.
    budget: Budget,
    /// By the model that was asked.
    by_model: Vec<GroupUsage>,
    /// By run, oldest first.
    by_run: Page<RunUsage>,
}

/// What the requests of one run used.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RunUsage {
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// What they used.
    #[serde(flatten)]
    spent: Spent,
    #[serde(skip)]
    accepted_seq: i64,
}

/// What the requests of one group used.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct GroupUsage {
    /// The day, the model, or the session's id; `deleted` for all sessions that are no more.
    key: String,
    /// What they used.
    #[serde(flatten)]
    spent: Spent,
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
    /// Runs of the page, 1 to 200.
    limit: Option<i64>,
    /// The `next_cursor` of `by_run` of the page before.
    after: Option<String>,
}

/// Adds up what a session's requests to the model used and cost: in all, by model and by run.
#[utoipa::path(
    get, path = "/sessions/{session_id}/usage", operation_id = "get_session_usage", tag = "usage",
    params(("session_id" = String, Path, description = "The session."), GetSessionUsage),
    responses(
        (status = 200, description = "The sums.", body = SessionUsage),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_session_usage(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    query: Params<GetSessionUsage>,
) -> Result<Json<SessionUsage>, ApiError> {
    let SessionPath(session_id) = path;
    let Params(GetSessionUsage { limit, after }) = query;
    let limit = page_limit(limit)?;
    let after = cursor(after)?.unwrap_or(0);
    let tenant = caller.tenant;
    let missing = || ApiError::Service(Error::SessionNotFound(session_id.to_string()));
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let session = find(&mut conn, tenant, session_id).await?.ok_or_else(missing)?;
    let total = of_session(&mut conn, tenant, session_id).await?.ok_or_else(missing)?;
    let runs = list_run_usage(&mut conn, session_id, after, limit + 1).await?;
    let selection = Selection {
        tenant,
        session_id: Some(session_id),
        days: None,
        by: Some(By::Model),
        after: None,
        limit: MAX_MODELS,
    };
    let by_model = list(&mut conn, selection).await?;
    conn.give_back();
    let runs = runs.into_iter().map(|(run_id, accepted_seq, spent)| RunUsage {
        run_id,
        spent,
        accepted_seq,
    });
    Ok(Json(SessionUsage {
        r#type: "session_usage",
        session_id,
        total,
        budget: session.settings.budget,
        by_model: by_model.into_iter().map(GroupUsage::from).collect(),
        by_run: Page::new(runs.collect(), limit, |run| run.accepted_seq.to_string()),
    }))
}

/// By what usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum GroupBy {
    /// Days by UTC.
    #[default]
    Day,
    /// The models that were asked.
    Model,
    /// Sessions.
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
    /// The first day, by UTC; 29 days before the last one when absent.
    #[param(value_type = Option<String>, format = Date)]
    from: Option<Date>,
    /// The last day, included; today when absent.
    #[param(value_type = Option<String>, format = Date)]
    to: Option<Date>,
    /// By what the sums are grouped; by day when absent.
    group_by: Option<GroupBy>,
    /// Groups of the page, 1 to 200.
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    after: Option<String>,
}

/// What a tenant's requests used in some days.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TenantUsage {
    /// `usage`.
    r#type: &'static str,
    /// The first day, by UTC.
    #[schema(value_type = String, format = Date)]
    from: Date,
    /// The last day, included.
    #[schema(value_type = String, format = Date)]
    to: Date,
    /// All requests of these days.
    total: Spent,
    /// By what they are grouped.
    group_by: GroupBy,
    /// The groups, in the order of their keys.
    #[serde(flatten)]
    groups: Page<GroupUsage>,
}

/// Adds up what all requests to the model used and cost in some days, by day, model or session. A
/// request counts on the day on which it ended.
#[utoipa::path(
    get, path = "/usage", operation_id = "get_usage", tag = "usage",
    params(GetUsage),
    responses(
        (status = 200, description = "The sums.", body = TenantUsage),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_usage(
    State(api): State<Api>,
    caller: Caller,
    query: Params<GetUsage>,
) -> Result<Json<TenantUsage>, ApiError> {
    let Params(GetUsage { from, to, group_by, limit, after }) = query;
    let limit = page_limit(limit)?;
    let days = days(from, to)?;
    let group_by = group_by.unwrap_or_default();
    let after = after.map(|after| key(group_by, after)).transpose()?;
    let tenant = caller.tenant;
    let all =
        Selection { tenant, session_id: None, days: Some(days), by: None, after: None, limit: 1 };
    let groups =
        Selection { by: Some(group_by.into()), after: after.as_deref(), limit: limit + 1, ..all };
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let total = list(&mut conn, all).await?.pop().map(|group| group.spent);
    let groups = list(&mut conn, groups).await?;
    conn.give_back();
    let groups = groups.into_iter().map(GroupUsage::from).collect();
    Ok(Json(TenantUsage {
        r#type: "usage",
        from: days.from,
        to: days.to,
        total: total.unwrap_or_default(),
        group_by,
        groups: Page::new(groups, limit, |group: &GroupUsage| group.key.clone()),
    }))
}

/// The days that a query names.
fn days(from: Option<Date>, to: Option<Date>) -> Result<Days, ApiError> {
    let invalid = |message: &str| ApiError::InvalidQuery(message.to_owned());
    let to = to.unwrap_or_else(|| Timestamp::now().to_zoned(TimeZone::UTC).date());
    let before = Span::new().days(i64::from(USUAL_DAYS - 1));
    let from = match from {
        Some(from) => from,
        None => to.checked_sub(before).map_err(|_| invalid("to is too early"))?,
    };
    if from > to {
        return Err(invalid("from is later than to"));
    }
    let length = to.since(from).map_or(i32::MAX, |span| span.get_days());
    if length >= MAX_DAYS {
        return Err(invalid("there are more than 366 days from from to to"));
    }
    Ok(Days { from, to })
}

/// The key behind a cursor; sessions have another form in the database.
fn key(by: GroupBy, after: String) -> Result<String, ApiError> {
    match by {
        GroupBy::Session if after == DELETED => Ok(after),
        GroupBy::Session => {
            let id: SessionId =
                after.parse().map_err(|_| ApiError::Service(Error::InvalidCursor(after)))?;
            Ok(id.as_uuid().to_string())
        }
        GroupBy::Day | GroupBy::Model if after.contains('\0') => {
            Err(ApiError::Service(Error::InvalidCursor(after)))
        }
        GroupBy::Day | GroupBy::Model => Ok(after),
    }
}
