//! Everything that is kept: the database, and the server behind it when none is given.

pub mod embedded;
#[cfg(test)]
#[path = "../../tests/support/postgres.rs"]
pub(crate) mod testing;
