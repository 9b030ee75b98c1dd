//! What a list of sessions is asked for.

use axum::extract::FromRequestParts;
use http::request::Parts;
use jiff::Timestamp;
use serde::Deserialize;

use super::paging::{Asked, Order};
use crate::domain::ids::SessionId;
use crate::domain::session_filter::{SessionFilter, Standing};
use crate::http::error::ApiError;
use crate::http::extract::query::query;

/// Members of metadata that one query may name.
const MAX_MEMBERS: usize = 5;
/// Characters of words to look for.
const MAX_WORDS: usize = 200;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListSessions {
    /// Items of the page, 1 to 200.
    limit: Option<i64>,
    /// Only sessions behind this one: the `next_cursor` of the page before.
    after: Option<String>,
    /// Only sessions before this one; the page is the last one before it.
    before: Option<String>,
    /// `desc`, which is meant where it is absent, newest first, or `asc`.
    #[param(inline)]
    order: Option<Order>,
    /// Only sessions of this status. `requires_action`: only those that are idle because their live
    /// run waits for somebody.
    #[param(inline)]
    status: Option<Standing>,
    /// `false`, which is meant where it is absent, only sessions that are not put away; `true`, only
    /// those that are; `any`, both.
    #[param(inline)]
    archived: Option<Archived>,
    /// Only sessions whose title, or one message that somebody posted to them, has all of these
    /// words; at most 200 characters.
    #[param(max_length = 200)]
    q: Option<String>,
    /// Only sessions that were made after this moment.
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Timestamp>,
    /// Only sessions that were made before this moment.
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Timestamp>,
    /// Only sessions in which sub-agents of this session work; they are not in the list otherwise.
    #[param(value_type = Option<String>, pattern = "^ses_[0-9a-f]{32}$")]
    parent: Option<SessionId>,
}

/// Which sessions are meant.
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
    pub(super) asked: Asked<SessionId>,
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
        // The names of these members are the client's, so they are read apart.
        let (members, others): (Vec<&str>, Vec<&str>) =
            whole.split('&').partition(|pair| is_member(pair));
        let members: Vec<(String, String)> = query(&members.join("&"))?;
        let list: ListSessions = query(&others.join("&"))?;
        let order = list.order.unwrap_or(Order::Desc);
        let asked = Asked::read(list.limit, list.after, list.before, order)?;
        let filter = SessionFilter {
            archived: match list.archived.unwrap_or(Archived::False) {
                Archived::True => Some(true),
                Archived::False => Some(false),
                Archived::Any => None,
            },
            standing: list.status,
            metadata: metadata(members)?,
            words: list.q.map(words).transpose()?,
            created_after: list.created_after.map(storable),
            created_before: list.created_before.map(storable),
            parent: list.parent,
        };
        Ok(Self { asked, filter })
    }
}

/// Whether a pair of a query names a member of metadata.
fn is_member(pair: &str) -> bool {
    let rest = pair.strip_prefix("metadata").unwrap_or_default();
    ["[", "%5B", "%5b"].iter().any(|bracket| rest.starts_with(bracket))
}

fn metadata(pairs: Vec<(String, String)>) -> Result<Vec<(String, String)>, ApiError> {
    let invalid = |cause: &str| Err(ApiError::InvalidQuery(cause.to_owned()));
    if pairs.len() > MAX_MEMBERS {
        return invalid("more than 5 members of metadata are named");
    }
    let mut members = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        let key = name.strip_prefix("metadata[").and_then(|name| name.strip_suffix(']'));
        let Some(key) = key else { return invalid("a member of metadata is metadata[key]=value") };
        if key.contains('\0') || value.contains('\0') {
            return invalid("metadata with a NUL is not searched");
        }
        members.push((key.to_owned(), value));
    }
    Ok(members)
}

fn words(q: String) -> Result<String, ApiError> {
    if q.chars().count() > MAX_WORDS || q.contains('\0') {
        let cause = "q is longer than 200 characters, or has a NUL";
        return Err(ApiError::InvalidQuery(cause.to_owned()));
    }
    Ok(q)
}

/// No session is older, and the database knows no earlier moments than some.
fn storable(moment: Timestamp) -> Timestamp {
    moment.max(Timestamp::UNIX_EPOCH)
}
