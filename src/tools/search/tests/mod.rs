//! What a search sees and what it does not.

mod race;
pub(crate) mod tree;
