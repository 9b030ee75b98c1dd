//! Pages of lists.

use serde::Serialize;

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Page<T> {
    /// The items.
    pub(in crate::http) data: Vec<T>,
    /// `true` if there are more items.
    pub(in crate::http) has_more: bool,
    /// The cursor of the next page, for the parameter that requested this page (`after`, or `before`
    /// when paging backwards); absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) next_cursor: Option<String>,
    /// The cursor of the previous page, for the other one of the two parameters; absent on the first
    /// page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) prev_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A complete list as one page.
    pub(in crate::http) fn whole(data: Vec<T>) -> Self {
        Self { data, has_more: false, next_cursor: None, prev_cursor: None }
    }

    /// Makes a page of at most `limit` items from up to `limit + 1` items.
    pub(in crate::http) fn new(
        mut data: Vec<T>,
        limit: i64,
        cursor: impl Fn(&T) -> String,
    ) -> Self {
        let limit = usize::try_from(limit).unwrap_or(0);
        let has_more = data.len() > limit;
        data.truncate(limit);
        let next_cursor = data.last().filter(|_| has_more).map(cursor);
        Self { data, has_more, next_cursor, prev_cursor: None }
    }
}
