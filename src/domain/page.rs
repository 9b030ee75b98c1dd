//! Keyset pagination.

/// A slice of a list that is ordered by a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice<K> {
    /// Only items after this key, in the direction of reading; none to read from the start.
    pub from: Option<K>,
    /// True to read in ascending order.
    pub is_upwards: bool,
    /// Maximum number of items.
    pub limit: i64,
}

impl<K> Slice<K> {
    /// The items with the lowest keys.
    pub const fn first(limit: i64) -> Self {
        Self { from: None, is_upwards: true, limit }
    }

    /// Returns items that were read in this direction, in ascending order.
    pub fn in_order<T>(&self, mut read: Vec<T>) -> Vec<T> {
        if !self.is_upwards {
            read.reverse();
        }
        read
    }
}
