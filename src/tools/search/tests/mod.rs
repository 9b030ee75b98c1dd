//! Tests of the file search.

mod race;
pub(crate) mod tree;
