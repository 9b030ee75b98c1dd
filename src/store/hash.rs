//! Columns with a SHA-256.

use super::{StoreError, unreadable};

/// Reads the value of a column that contains a SHA-256.
pub(super) fn read_hash(
    table: &'static str,
    column: &'static str,
    bytes: Vec<u8>,
) -> Result<[u8; 32], StoreError> {
    let hash = <[u8; 32]>::try_from(bytes).map_err(|bytes| format!("{} bytes", bytes.len()));
    hash.map_err(unreadable(table, column))
}
