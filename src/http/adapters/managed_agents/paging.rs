//! Pages of lists. One parameter, `page`, reads in both directions, so its tokens name the direction.

use std::fmt::Display;
use std::str::FromStr;

use serde::Serialize;
use serde_json::value::RawValue;

use super::query::SdkQuery;
use crate::http::error::ApiError;
use crate::service::paging::{CursorSource, ListPage, PageRequest};

const AFTER: &str = "after_";
const BEFORE: &str = "before_";

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ManagedAgentsPage {
    /// The items, as the SDKs describe them.
    #[schema(value_type = Vec<Object>)]
    pub(super) data: Vec<Box<RawValue>>,
    /// The `page` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page: Option<String>,
    /// The `page` of the previous page; absent on the first one, and in lists that are read in one
    /// direction only.
    #[serde(skip_serializing_if = "Option::is_none")]
    prev_page: Option<String>,
}

/// Parses the parameters of a list.
pub(super) fn page_request<K: FromStr>(
    query: &SdkQuery,
    is_ascending: bool,
) -> Result<PageRequest<K>, ApiError> {
    let limit = query.limit()?;
    let Some(token) = query.one("page")? else {
        return Ok(PageRequest { limit, from: None, is_before: false, is_ascending });
    };
    let before = token.strip_prefix(BEFORE);
    let key = before.or_else(|| token.strip_prefix(AFTER)).and_then(|key| key.parse().ok());
    let Some(from) = key else {
        let message = format!("is {token:?}, which is not a page of this list");
        return Err(CursorSource::Parameter("page").refuse(message).into());
    };
    Ok(PageRequest { limit, from: Some(from), is_before: before.is_some(), is_ascending })
}

impl ManagedAgentsPage {
    /// A page with these items.
    pub(super) fn new<T, K: Display>(page: &ListPage<T, K>, data: Vec<Box<RawValue>>) -> Self {
        let (next, previous) = if page.is_before {
            (&page.previous, &page.next)
        } else {
            (&page.next, &page.previous)
        };
        let token =
            |direction: &str, key: &Option<K>| key.as_ref().map(|key| format!("{direction}{key}"));
        Self { data, next_page: token(AFTER, next), prev_page: token(BEFORE, previous) }
    }

    /// A page of a list that has been read completely, newest first.
    pub(super) fn of_all<T, K: Copy + Display + FromStr + PartialOrd>(
        query: &SdkQuery,
        items: Vec<T>,
        (key, render): (impl Fn(&T) -> K, impl Fn(&T) -> Box<RawValue>),
    ) -> Result<Self, ApiError> {
        let request: PageRequest<K> = page_request(query, false)?;
        let limit = usize::try_from(request.limit).unwrap_or_default();
        let is_later = |item: &T| request.from.is_none_or(|from| key(item) < from);
        let mut later = items.into_iter().rev().filter(is_later);
        let items: Vec<T> = later.by_ref().take(limit).collect();
        let next = items.last().map(&key).filter(|_| later.next().is_some());
        let data = items.iter().map(render).collect();
        Ok(Self { data, next_page: next.map(|key| format!("{AFTER}{key}")), prev_page: None })
    }
}
