//! Which part of a list is read.

/// Items of a list that is ordered by a key, from behind one of them on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice<K> {
    /// Only items behind this one, in the direction of reading; none to read from the end.
    pub from: Option<K>,
    /// Whether it is read towards greater keys.
    pub is_upwards: bool,
    /// At most so many.
    pub limit: i64,
}

impl<K> Slice<K> {
    /// The items with the least keys.
    pub const fn first(limit: i64) -> Self {
        Self { from: None, is_upwards: true, limit }
    }

    /// Items that were read in this direction, in the order of their keys.
    pub fn in_order<T>(&self, mut read: Vec<T>) -> Vec<T> {
        if !self.is_upwards {
            read.reverse();
        }
        read
    }
}
