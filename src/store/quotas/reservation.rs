//! Reservations of stored bytes: requests that store something are counted while they are accepted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::quota::{QuotaExceeded, QuotaResource};

/// The stored bytes of a tenant, as this process knows them.
#[derive(Debug, Default)]
pub(super) struct StoredSum(Mutex<Sum>);

#[derive(Debug, Default)]
struct Sum {
    /// The bytes of the last read, with those that this process has stored since.
    stored: i64,
    /// The bytes of requests that are being accepted.
    reserved: i64,
}

impl StoredSum {
    /// The bytes of the last read, with those that this process has stored since.
    pub(super) fn stored(&self) -> i64 {
        self.sum().stored
    }

    /// Records a read that began when the sum was `before`. What was stored during the read is
    /// added, because the read may not have seen it.
    pub(super) fn replace(&self, before: i64, read: i64) {
        let mut sum = self.sum();
        sum.stored = read.saturating_add(sum.stored.saturating_sub(before));
    }

    fn sum(&self) -> MutexGuard<'_, Sum> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The quota of stored bytes of a tenant.
#[derive(Debug)]
pub struct ByteQuota(Option<(Arc<StoredSum>, i64)>);

impl ByteQuota {
    /// No quota.
    pub(super) const NONE: Self = Self(None);

    pub(super) const fn new(sum: Arc<StoredSum>, limit: i64) -> Self {
        Self(Some((sum, limit)))
    }

    /// Reserves bytes for a request. No concurrent request gets the same remainder.
    pub fn reserve(&self, bytes: usize) -> Result<ReservedBytes, QuotaExceeded> {
        let Self(Some((stored, limit))) = self else { return Ok(ReservedBytes(None)) };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut sum = stored.sum();
        let used = sum.stored.saturating_add(sum.reserved);
        let exceeded = QuotaExceeded::check(QuotaResource::StoredBytes, used, bytes, *limit);
        if let Some(exceeded) = exceeded {
            return Err(exceeded);
        }
        sum.reserved = sum.reserved.saturating_add(bytes);
        Ok(ReservedBytes(Some((Arc::clone(stored), bytes))))
    }
}

/// Bytes that are reserved for a request. They are free again when this is dropped, unless they
/// were stored.
#[derive(Debug)]
#[must_use = "the bytes are free again when this is dropped"]
pub struct ReservedBytes(Option<(Arc<StoredSum>, i64)>);

impl ReservedBytes {
    /// Counts the bytes as stored, until the next read replaces them.
    pub fn keep(self) {
        if let Some((stored, bytes)) = &self.0 {
            let mut sum = stored.sum();
            sum.stored = sum.stored.saturating_add(*bytes);
        }
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        if let Some((stored, bytes)) = &self.0 {
            let mut sum = stored.sum();
            sum.reserved = sum.reserved.saturating_sub(*bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(limit: i64) -> (Arc<StoredSum>, ByteQuota) {
        let sum = Arc::new(StoredSum::default());
        (Arc::clone(&sum), ByteQuota::new(sum, limit))
    }

    #[test]
    fn bytes_of_a_refused_request_are_free_again() {
        let (_, quota) = quota(10);
        let reserved = quota.reserve(10).unwrap();
        assert_eq!(quota.reserve(1).unwrap_err().used, 10);
        drop(reserved);
        quota.reserve(10).unwrap().keep();
        assert!(quota.reserve(1).is_err());
    }

    #[test]
    fn a_read_forgets_neither_reservations_nor_bytes_that_were_stored_during_it() {
        let (sum, quota) = quota(10);
        let reserved = quota.reserve(4).unwrap();
        let before = sum.stored();
        quota.reserve(3).unwrap().keep();
        sum.replace(before, 1);
        assert_eq!(quota.reserve(3).unwrap_err().used, 8);
        drop(reserved);
        sum.replace(sum.stored(), 7);
        assert!(quota.reserve(4).is_err());
        assert!(quota.reserve(3).is_ok());
    }

    #[test]
    fn every_number_of_bytes_may_be_reserved_without_a_quota() {
        ByteQuota::NONE.reserve(usize::MAX).unwrap().keep();
    }
}
