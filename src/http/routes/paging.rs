//! Pages of lists: query parameters and `Link` headers.

use std::fmt::Display;
use std::str::FromStr;

use axum::response::{IntoResponse as _, Response};
use http::header::LINK;
use http::{HeaderName, HeaderValue, Uri};
use serde::{Deserialize, Serialize};

use crate::http::error::ApiError;
use crate::http::extract::conditions::tagged_json;
use crate::http::resources::Page;
use crate::http::server::forwarded::link;
use crate::service::paging::{CursorSource, ListPage, PageRequest};

/// The number of items of a page if the query has no `limit`.
pub(in crate::http) const DEFAULT_LIMIT: i64 = 50;
/// The maximum number of items of a page.
pub(in crate::http) const MAX_LIMIT: i64 = 200;

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Order {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// Parses the query parameters of a list.
pub(super) fn page_request<K: FromStr>(
    limit: Option<i64>,
    after: Option<String>,
    before: Option<String>,
    order: Order,
) -> Result<PageRequest<K>, ApiError> {
    let limit = page_limit(limit)?;
    if after.is_some() && before.is_some() {
        return Err(ApiError::query("before", "is not allowed together with `after`"));
    }
    let is_before = before.is_some();
    let from = cursor(after.or(before), if is_before { "before" } else { "after" })?;
    Ok(PageRequest { limit, from, is_before, is_ascending: order == Order::Asc })
}

/// Checks the `limit` of a list.
pub(super) fn page_limit(limit: Option<i64>) -> Result<i64, ApiError> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let message = format!("is {limit}; 1 to {MAX_LIMIT} are allowed");
        return Err(ApiError::query("limit", message));
    }
    Ok(limit)
}

/// Parses the cursor of this parameter.
pub(super) fn cursor<T: FromStr>(
    text: Option<String>,
    parameter: &'static str,
) -> Result<Option<T>, ApiError> {
    text.map(|text| parse_cursor(&text, parameter)).transpose()
}

/// Parses a cursor that is present.
pub(super) fn parse_cursor<T: FromStr>(text: &str, parameter: &'static str) -> Result<T, ApiError> {
    text.parse().map_err(|_| {
        let message = format!("is {text:?}, which is not a cursor of this list");
        CursorSource::Parameter(parameter).refuse(message).into()
    })
}

/// A page as JSON, with links to its neighbours and an `ETag` of its content.
pub(super) fn respond<T: Serialize, K: Display>(page: ListPage<T, K>, uri: &Uri) -> Response {
    (links(&page, uri), tagged_json(&Page::from(page))).into_response()
}

impl<T, K: Display> From<ListPage<T, K>> for Page<T> {
    fn from(page: ListPage<T, K>) -> Self {
        Self {
            has_more: page.has_more,
            next_cursor: page.next.as_ref().map(K::to_string),
            prev_cursor: page.previous.as_ref().map(K::to_string),
            data: page.items,
        }
    }
}

/// Links to the next and the previous page in the order of the list (RFC 8288).
pub(super) fn links<T, K: Display>(
    page: &ListPage<T, K>,
    uri: &Uri,
) -> Option<[(HeaderName, HeaderValue); 1]> {
    let (next, previous) =
        if page.is_before { (&page.previous, &page.next) } else { (&page.next, &page.previous) };
    let links: Vec<String> = [("next", "after", next), ("prev", "before", previous)]
        .into_iter()
        .filter_map(|(rel, member, cursor)| {
            let target = target(uri, member, &cursor.as_ref()?.to_string());
            Some(format!("<{target}>; rel=\"{rel}\""))
        })
        .collect();
    // Every character of a request target is legal in a header.
    let value = HeaderValue::from_str(&links.join(", ")).ok();
    value.filter(|value| !value.is_empty()).map(|value| [(LINK, value)])
}

/// The target of the request with another cursor.
fn target(uri: &Uri, member: &str, cursor: &str) -> String {
    let path = uri.path();
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let is_cursor = |pair: &str| ["after=", "before="].iter().any(|name| pair.starts_with(name));
    let query = uri.query().unwrap_or_default().split('&');
    let kept = query.filter(|pair| !pair.is_empty() && !is_cursor(pair));
    let cursor = format!("{member}={cursor}");
    let query: Vec<&str> = kept.chain([cursor.as_str()]).collect();
    link(format_args!("{path}?{}", query.join("&")))
}

#[cfg(test)]
mod tests {
    use super::Order::{Asc, Desc};
    use super::*;
    use crate::domain::page::Slice;

    /// Reads a slice of the numbers up to ten as a slice of a table is read.
    fn read(slice: Slice<i64>) -> Vec<i64> {
        let is_after = |key: &i64| match slice.from {
            Some(from) if slice.is_upwards => *key > from,
            Some(from) => *key < from,
            None => true,
        };
        let mut keys: Vec<i64> = (1..=10).collect();
        if !slice.is_upwards {
            keys.reverse();
        }
        let limit = usize::try_from(slice.limit).unwrap();
        slice.in_order(keys.into_iter().filter(is_after).take(limit).collect())
    }

    fn page(query: &str, order: Order) -> (Vec<i64>, Option<HeaderValue>) {
        let uri: Uri = format!("/numbers?limit=4&{query}").parse().unwrap();
        let member =
            |name: &str| query.split('&').find_map(|it| Some(it.strip_prefix(name)?.to_owned()));
        let request = page_request(Some(4), member("after="), member("before="), order).unwrap();
        let mut page = request.page(read(request.slice()), |key| *key);
        if let Some(slice) = page.slice_before() {
            page.set_has_previous(!read(slice).is_empty());
        }
        let link = links(&page, &uri).map(|[(_, value)]| value);
        (page.items, link)
    }

    #[test]
    fn a_list_is_read_in_both_orders_and_directions() {
        let link = |links: &[(&str, &str)]| {
            let links = links
                .iter()
                .map(|(query, rel)| format!("</v1/numbers?limit=4&{query}>; rel=\"{rel}\""));
            let links = links.collect::<Vec<String>>().join(", ");
            (!links.is_empty()).then(|| HeaderValue::from_str(&links).unwrap())
        };
        for (query, order, data, links) in [
            ("", Asc, vec![1, 2, 3, 4], link(&[("after=4", "next")])),
            ("after=4", Asc, vec![5, 6, 7, 8], link(&[("after=8", "next"), ("before=5", "prev")])),
            ("after=8", Asc, vec![9, 10], link(&[("before=9", "prev")])),
            ("after=10", Asc, vec![], None),
            ("after=0", Asc, vec![1, 2, 3, 4], link(&[("after=4", "next")])),
            ("before=9", Asc, vec![5, 6, 7, 8], link(&[("after=8", "next"), ("before=5", "prev")])),
            ("before=5", Asc, vec![1, 2, 3, 4], link(&[("after=4", "next")])),
            ("before=1", Asc, vec![], None),
            ("", Desc, vec![10, 9, 8, 7], link(&[("after=7", "next")])),
            ("after=7", Desc, vec![6, 5, 4, 3], link(&[("after=3", "next"), ("before=6", "prev")])),
            ("before=6", Desc, vec![10, 9, 8, 7], link(&[("after=7", "next")])),
            (
                "before=4",
                Desc,
                vec![8, 7, 6, 5],
                link(&[("after=5", "next"), ("before=8", "prev")]),
            ),
        ] {
            assert_eq!(page(query, order), (data, links), "{query} {order:?}");
        }
    }

    #[test]
    fn a_link_keeps_the_query_except_for_its_cursor() {
        let uri: Uri = "/v1/sessions?q=a%20b&after=x&metadata[k]=v&order=asc".parse().unwrap();
        let expected = "/v1/sessions?q=a%20b&metadata[k]=v&order=asc&before=7";
        assert_eq!(target(&uri, "before", "7"), expected);
        assert_eq!(target(&"/runs".parse().unwrap(), "after", "7"), "/v1/runs?after=7");
    }
}
