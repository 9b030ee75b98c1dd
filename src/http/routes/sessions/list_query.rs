//! The query of a list of sessions.

use axum::extract::FromRequestParts;
use http::request::Parts;
use jiff::Timestamp;
use serde::Deserialize;

use crate::domain::ids::SessionId;
use crate::domain::session_filter::{SessionFilter, SessionState};
use crate::http::error::ApiError;
use crate::http::extract::query::query;
use crate::http::routes::paging::{Order, page_request};
use crate::service::paging::PageRequest;

/// Maximum number of metadata members in a query.
const MAX_MEMBERS: usize = 5;
/// Maximum length of the search text, in characters.
const MAX_WORDS: usize = 200;
/// Maximum length of an external id and of the name of a user, in characters.
const MAX_NAME: usize = 255;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListSessions {
    /// Maximum number of items, 1 to 200.
    limit: Option<i64>,
    /// Returns the page after this session: the `next_cursor` of the previous page.
    after: Option<String>,
    /// Returns the page before this session.
    before: Option<String>,
    /// The order: `desc`, newest first, or `asc`. When absent, `desc`.
    #[param(inline)]
    order: Option<Order>,
    /// Selects sessions of this status. `requires_action` selects idle sessions whose active run
    /// waits for a decision or a tool result.
    #[param(inline)]
    status: Option<SessionState>,
    /// Selects sessions by their archived state: `false`, `true` or `any`. When absent, `false`; with
    /// `external_id`, `any`.
    #[param(inline)]
    archived: Option<Archived>,
    /// Selects sessions that have all of these words in their title or in one user message; at most
    /// 200 characters. Words are separated as by the text search of Postgres, which keeps names such
    /// as `Europe/Oslo` and `example.com` in one piece: `oslo` does not find the former.
    #[param(max_length = 200)]
    q: Option<String>,
    /// Selects sessions that were created after this time.
    #[serde(default, deserialize_with = "crate::domain::rfc3339::parse_optional")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Timestamp>,
    /// Selects sessions that were created before this time.
    #[serde(default, deserialize_with = "crate::domain::rfc3339::parse_optional")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Timestamp>,
    /// Selects the session with this external id, archived or not.
    #[param(max_length = 255)]
    external_id: Option<String>,
    /// Selects the sessions of this user.
    #[param(max_length = 255)]
    user: Option<String>,
    /// Selects the sessions of this session's sub-agents. Without it, sessions of sub-agents are left
    /// out.
    #[param(value_type = Option<String>, pattern = "^ses_[0-9a-f]{32}$")]
    parent: Option<SessionId>,
}

/// The archived state of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Archived {
    True,
    False,
    Any,
}

/// The query of a list of sessions.
#[derive(Debug)]
pub(in crate::http) struct SessionQuery {
    pub(super) page: PageRequest<SessionId>,
    pub(super) filter: SessionFilter,
}

impl<S: Send + Sync> FromRequestParts<S> for SessionQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::read(parts.uri.query().unwrap_or_default())
    }
}

impl SessionQuery {
    fn read(whole: &str) -> Result<Self, ApiError> {
        // Clients choose the names of these members, so they are parsed separately.
        let (members, others): (Vec<&str>, Vec<&str>) =
            whole.split('&').partition(|pair| is_member(pair));
        let members: Vec<(String, String)> = query(&members.join("&"))?;
        let list: ListSessions = query(&others.join("&"))?;
        let order = list.order.unwrap_or(Order::Desc);
        let page = page_request(list.limit, list.after, list.before, order)?;
        let filter = SessionFilter {
            archived: match (list.archived, &list.external_id) {
                (Some(Archived::True), _) => Some(true),
                (Some(Archived::Any), _) | (None, Some(_)) => None,
                (Some(Archived::False), _) | (None, None) => Some(false),
            },
            state: list.status,
            metadata: metadata(members)?,
            words: list.q.map(words).transpose()?,
            created_after: list.created_after.map(storable),
            created_before: list.created_before.map(storable),
            external_id: list.external_id.map(|id| name("external_id", id)).transpose()?,
            user: list.user.map(|user| name("user", user)).transpose()?,
            agent: None,
            agent_version: None,
            parent: list.parent,
        };
        Ok(Self { page, filter })
    }
}

/// Returns true if a pair of a query names a metadata member.
fn is_member(pair: &str) -> bool {
    let rest = pair.strip_prefix("metadata").unwrap_or_default();
    ["[", "%5B", "%5b"].iter().any(|bracket| rest.starts_with(bracket))
}

fn metadata(pairs: Vec<(String, String)>) -> Result<Vec<(String, String)>, ApiError> {
    let invalid = |cause: &str| Err(ApiError::query("metadata", cause));
    if pairs.len() > MAX_MEMBERS {
        return invalid("names more than 5 members; at most 5 are allowed");
    }
    let mut members = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        let key = name.strip_prefix("metadata[").and_then(|name| name.strip_suffix(']'));
        let Some(key) = key else {
            return invalid("has not the form `metadata[key]=value`");
        };
        if key.contains('\0') || value.contains('\0') {
            return invalid("has a NUL character");
        }
        members.push((key.to_owned(), value));
    }
    Ok(members)
}

fn words(q: String) -> Result<String, ApiError> {
    if q.chars().count() > MAX_WORDS || q.contains('\0') {
        let cause = "is longer than 200 characters or has a NUL character";
        return Err(ApiError::query("q", cause));
    }
    Ok(q)
}

fn name(parameter: &str, name: String) -> Result<String, ApiError> {
    if name.chars().count() > MAX_NAME || name.contains('\0') {
        let cause = "is longer than 255 characters or has a NUL character";
        return Err(ApiError::query(parameter, cause));
    }
    Ok(name)
}

/// Raises a time to the epoch: no session is older, and Postgres does not store every earlier time.
fn storable(time: Timestamp) -> Timestamp {
    time.max(Timestamp::UNIX_EPOCH)
}
