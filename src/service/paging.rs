//! Pages of lists that clients read forwards and backwards by the key of an item.

use std::fmt::Display;

use super::error::{Error, FieldError};
use crate::domain::page::Slice;

/// Reads a page, and whether there are items before it:
/// `read_page!(request, |item| item.id, |slice| list(conn, slice))`. A macro, because a future that
/// contains an async closure within another one is not `Send`.
macro_rules! read_page {
    ($request:expr, $key:expr, |$slice:ident| $list:expr) => {{
        let $slice = $request.slice();
        let mut page = $request.page($list.await?, $key);
        if let Some($slice) = page.slice_before() {
            page.set_has_previous(!$list.await?.is_empty());
        }
        page
    }};
}
pub(super) use read_page;

/// The part of a request that has a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorSource {
    /// A query parameter.
    Parameter(&'static str),
    /// A header.
    Header(&'static str),
}

impl CursorSource {
    /// Refuses a cursor from this source.
    pub(crate) fn refuse(self, message: impl Into<String>) -> Error {
        Error::InvalidCursor(match self {
            Self::Parameter(name) => FieldError::in_query(name, message),
            Self::Header(name) => FieldError::in_header(name, message),
        })
    }

    /// Refuses a number that is negative or greater than the newest one. A reader that starts there
    /// would take the next items for old ones.
    pub(crate) fn check_number<K>(self, number: K, newest: K) -> Result<(), Error>
    where
        K: Copy + Display + PartialOrd + From<i8>,
    {
        if number < K::from(0) || number > newest {
            let message =
                format!("is {number}; a number from 0 to {newest}, the newest, is required");
            return Err(self.refuse(message));
        }
        Ok(())
    }
}

/// A request for a page.
#[derive(Debug)]
pub(crate) struct PageRequest<K> {
    /// Maximum number of items.
    pub(crate) limit: i64,
    /// The item next to which the page begins; none for the start of the list.
    pub(crate) from: Option<K>,
    /// True for the page before `from`, false for the page after it.
    pub(crate) is_before: bool,
    /// True for a list in the order of its keys, false for the reverse order.
    pub(crate) is_ascending: bool,
}

impl<K: Copy + Display + PartialOrd + From<i8>> PageRequest<K> {
    /// Refuses a cursor that is no number of the list: the items are numbered up to the newest. A page
    /// of older items may begin anywhere after the newest.
    pub(crate) fn check_number(&self, newest: K) -> Result<(), Error> {
        let source = CursorSource::Parameter(if self.is_before { "before" } else { "after" });
        let Some(from) = self.from else { return Ok(()) };
        let is_beyond = from > newest && !self.slice().is_upwards;
        if is_beyond { Ok(()) } else { source.check_number(from, newest) }
    }
}

impl<K: Clone> PageRequest<K> {
    /// The slice to read. It has one item more than the page, which shows whether there are more.
    pub(crate) fn slice(&self) -> Slice<K> {
        let is_upwards = self.is_ascending != self.is_before;
        Slice { from: self.from.clone(), is_upwards, limit: self.limit + 1 }
    }

    /// Makes the page from the items of the slice, in the order of their keys.
    pub(crate) fn page<T>(&self, items: Vec<T>, key: impl Fn(&T) -> K) -> ListPage<T, K> {
        self.page_up_to(items, None, key)
    }

    /// Makes the page from the items that were found before the search stopped at a key. Such a
    /// page continues from that key, even if it has no items.
    pub(crate) fn page_up_to<T>(
        &self,
        items: Vec<T>,
        searched_up_to: Option<K>,
        key: impl Fn(&T) -> K,
    ) -> ListPage<T, K> {
        let mut items = self.slice().in_order(items);
        let limit = usize::try_from(self.limit).unwrap_or(0);
        let is_full = items.len() > limit;
        items.truncate(limit);
        let searched_up_to = searched_up_to.filter(|_| !is_full);
        // The items are in reading order here: the first is next to `from`.
        let [first, last] = [items.first(), items.last()].map(|item| item.map(&key));
        if self.is_before {
            items.reverse();
        }
        ListPage {
            items,
            has_more: is_full || searched_up_to.is_some(),
            next: searched_up_to.clone().or(last.filter(|_| is_full)),
            previous: None,
            is_before: self.is_before,
            is_upwards: self.slice().is_upwards,
            turning_point: first.or(searched_up_to).filter(|_| self.from.is_some()),
        }
    }
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct ListPage<T, K> {
    /// The items, in the order of the list.
    pub(crate) items: Vec<T>,
    /// True if there are more items in the direction of reading.
    pub(crate) has_more: bool,
    /// The key from which to read on in the same direction; none on the last page.
    pub(crate) next: Option<K>,
    /// The key from which to read back; none on the first page.
    pub(crate) previous: Option<K>,
    /// True if the page was read backwards.
    pub(crate) is_before: bool,
    is_upwards: bool,
    /// The key from which reading back would begin.
    turning_point: Option<K>,
}

impl<T, K: Clone> ListPage<T, K> {
    /// The slice that shows whether there are items before this page; none for the first page and
    /// for a page without items.
    pub(crate) fn slice_before(&self) -> Option<Slice<K>> {
        let from = self.turning_point.clone()?;
        Some(Slice { from: Some(from), is_upwards: !self.is_upwards, limit: 1 })
    }

    /// Records whether the slice of [`Self::slice_before`] has an item.
    pub(crate) fn set_has_previous(&mut self, has_previous: bool) {
        self.previous = self.turning_point.clone().filter(|_| has_previous);
    }

    /// Returns true if the page contains the item with the greatest key.
    pub(crate) fn reaches_end(&self, request: &PageRequest<K>) -> bool {
        if self.is_upwards { !self.has_more } else { request.from.is_none() }
    }

    /// Converts the items.
    pub(crate) fn map<U>(self, convert: impl FnMut(T) -> U) -> ListPage<U, K> {
        let Self { items, has_more, next, previous, is_before, is_upwards, turning_point } = self;
        let items = items.into_iter().map(convert).collect();
        ListPage { items, has_more, next, previous, is_before, is_upwards, turning_point }
    }
}
