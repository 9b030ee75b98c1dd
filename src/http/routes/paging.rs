//! Pages of lists, both ways.

use std::fmt::Display;
use std::str::FromStr;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::header::LINK;
use http::{HeaderName, HeaderValue, Uri};
use serde::{Deserialize, Serialize};

use super::{cursor, page_limit};
use crate::domain::page::Slice;
use crate::http::error::ApiError;
use crate::http::resources::Page;
use crate::http::server::forwarded::link;

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Order {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// How a page is asked for. Its items stand in the list's order in all cases.
#[derive(Debug)]
pub(super) struct Asked<K> {
    limit: i64,
    from: Option<K>,
    /// Whether the page is the one before `from`, and not the one behind it.
    is_before: bool,
    order: Order,
}

impl<K: Clone + Display + FromStr> Asked<K> {
    pub(super) fn read(
        limit: Option<i64>,
        after: Option<String>,
        before: Option<String>,
        order: Order,
    ) -> Result<Self, ApiError> {
        let limit = page_limit(limit)?;
        if after.is_some() && before.is_some() {
            let both = "a page is read with `after` or with `before`, not with both";
            return Err(ApiError::InvalidQuery(both.to_owned()));
        }
        let is_before = before.is_some();
        Ok(Self { limit, from: cursor(after.or(before))?, is_before, order })
    }

    /// What to read: one item more than the page has, which tells whether there are more.
    pub(super) fn slice(&self) -> Slice<K> {
        let is_upwards = (self.order == Order::Asc) != self.is_before;
        Slice { from: self.from.clone(), is_upwards, limit: self.limit + 1 }
    }

    /// Makes the page of what was read, in the order of keys.
    pub(super) fn page<T>(&self, read: Vec<T>, key: impl Fn(&T) -> K) -> Paged<T, K> {
        self.page_up_to(read, None, key)
    }

    /// Makes the page of what was found where nobody has looked behind a key yet. Such a page goes
    /// on from there, even if it has no item.
    pub(super) fn page_up_to<T>(
        &self,
        read: Vec<T>,
        looked_up_to: Option<K>,
        key: impl Fn(&T) -> K,
    ) -> Paged<T, K> {
        let mut data = self.slice().in_order(read);
        let limit = usize::try_from(self.limit).unwrap_or(0);
        let is_full = data.len() > limit;
        data.truncate(limit);
        let looked_up_to = looked_up_to.filter(|_| !is_full);
        // As they were read: from where the page was asked for on.
        let [near, far] = [data.first(), data.last()].map(|item| item.map(&key));
        if self.is_before {
            data.reverse();
        }
        Paged {
            back: near.or_else(|| looked_up_to.clone()).filter(|_| self.from.is_some()),
            page: Page {
                data,
                has_more: is_full || looked_up_to.is_some(),
                next_cursor: looked_up_to.or(far.filter(|_| is_full)).map(|key| key.to_string()),
                prev_cursor: None,
            },
            slice: self.slice(),
            is_before: self.is_before,
        }
    }
}

/// A page of a list, and how it was read.
#[derive(Debug)]
pub(super) struct Paged<T, K> {
    pub(super) page: Page<T>,
    slice: Slice<K>,
    is_before: bool,
    /// The item from which one would read back.
    back: Option<K>,
}

impl<T, K: Clone + Display> Paged<T, K> {
    /// What to read to find whether there is anything to read back to; none for a first page, and
    /// for one without items.
    pub(super) fn back(&self) -> Option<Slice<K>> {
        let from = self.back.clone()?;
        Some(Slice { from: Some(from), is_upwards: !self.slice.is_upwards, limit: 1 })
    }

    /// Notes whether there is.
    pub(super) fn goes_back(&mut self, found_any: bool) {
        self.page.prev_cursor = self.back.as_ref().filter(|_| found_any).map(K::to_string);
    }

    pub(super) fn map<U>(self, resource: impl FnMut(T) -> U) -> Paged<U, K> {
        let Page { data, has_more, next_cursor, prev_cursor } = self.page;
        let data = data.into_iter().map(resource).collect();
        let page = Page { data, has_more, next_cursor, prev_cursor };
        Paged { page, slice: self.slice, is_before: self.is_before, back: self.back }
    }

    /// The page as JSON, with links to its neighbours.
    pub(super) fn respond(self, uri: &Uri) -> Response
    where
        T: Serialize,
    {
        let links = self.links(uri);
        (links, Json(self.page)).into_response()
    }

    /// The pages behind and before this one in the list's order, whichever way it was read (RFC
    /// 8288).
    pub(super) fn links(&self, uri: &Uri) -> Option<[(HeaderName, HeaderValue); 1]> {
        let Page { next_cursor, prev_cursor, .. } = &self.page;
        let (behind, before) =
            if self.is_before { (prev_cursor, next_cursor) } else { (next_cursor, prev_cursor) };
        let links: Vec<String> = [("next", "after", behind), ("prev", "before", before)]
            .into_iter()
            .filter_map(|(rel, member, cursor)| {
                let target = target(uri, member, cursor.as_ref()?);
                Some(format!("<{target}>; rel=\"{rel}\""))
            })
            .collect();
        // What a target may hold, a header may hold.
        let value = HeaderValue::from_str(&links.join(", ")).ok();
        value.filter(|value| !value.is_empty()).map(|value| [(LINK, value)])
    }
}

/// A request's own target, with another cursor.
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

    /// Reads from a list of the numbers up to ten as a table does.
    fn read(slice: Slice<i64>) -> Vec<i64> {
        let is_behind = |key: &i64| match slice.from {
            Some(from) if slice.is_upwards => *key > from,
            Some(from) => *key < from,
            None => true,
        };
        let mut keys: Vec<i64> = (1..=10).collect();
        if !slice.is_upwards {
            keys.reverse();
        }
        let limit = usize::try_from(slice.limit).unwrap();
        slice.in_order(keys.into_iter().filter(is_behind).take(limit).collect())
    }

    fn page(query: &str, order: Order) -> (Vec<i64>, Option<HeaderValue>) {
        let uri: Uri = format!("/numbers?limit=4&{query}").parse().unwrap();
        let member =
            |name: &str| query.split('&').find_map(|it| Some(it.strip_prefix(name)?.to_owned()));
        let asked = Asked::read(Some(4), member("after="), member("before="), order).unwrap();
        let mut paged = asked.page(read(asked.slice()), |key| *key);
        if let Some(back) = paged.back() {
            paged.goes_back(!read(back).is_empty());
        }
        let link = paged.links(&uri).map(|[(_, value)]| value);
        (paged.page.data, link)
    }

    #[test]
    fn a_list_is_read_in_both_orders_and_both_ways() {
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
    fn a_link_keeps_all_of_the_query_but_its_cursor() {
        let uri: Uri = "/v1/sessions?q=a%20b&after=x&metadata[k]=v&order=asc".parse().unwrap();
        let expected = "/v1/sessions?q=a%20b&metadata[k]=v&order=asc&before=7";
        assert_eq!(target(&uri, "before", "7"), expected);
        assert_eq!(target(&"/runs".parse().unwrap(), "after", "7"), "/v1/runs?after=7");
    }
}
