//! Permits for streams and for requests that wait for a run: so many in all, and so many per key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::principal::LimitHolder;

/// The permits of one kind.
#[derive(Debug)]
pub(in crate::http) struct StreamPermits {
    max: usize,
    max_per_holder: usize,
    held: Mutex<HeldPermits>,
}

#[derive(Debug, Default)]
struct HeldPermits {
    all: usize,
    /// Holders without a permit have no entry.
    by_holder: HashMap<LimitHolder, usize>,
}

impl StreamPermits {
    /// Bounds the permits in all and those of each key.
    pub(in crate::http) fn new(max: usize, max_per_holder: usize) -> Self {
        Self { max, max_per_holder, held: Mutex::default() }
    }

    /// Acquires a permit, or returns the name of the bound that is reached. Callers without a key
    /// are bounded together.
    pub(in crate::http) fn acquire(
        self: Arc<Self>,
        holder: Option<LimitHolder>,
    ) -> Result<StreamPermit, &'static str> {
        let mut held = self.held();
        let of_holder = holder.and_then(|holder| held.by_holder.get(&holder).copied()).unwrap_or(0);
        if held.all >= self.max {
            return Err("the service");
        }
        if of_holder >= self.max_per_holder {
            return Err("this key");
        }
        held.all += 1;
        if let Some(holder) = holder {
            held.by_holder.insert(holder, of_holder + 1);
        }
        drop(held);
        Ok(StreamPermit { permits: self, holder })
    }

    fn held(&self) -> MutexGuard<'_, HeldPermits> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permission to hold one stream or one waiting request, returned on drop.
#[derive(Debug)]
pub(in crate::http) struct StreamPermit {
    permits: Arc<StreamPermits>,
    holder: Option<LimitHolder>,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut held = self.permits.held();
        held.all -= 1;
        if let Some(holder) = self.holder
            && let Some(of_holder) = held.by_holder.get_mut(&holder)
        {
            *of_holder -= 1;
            if *of_holder == 0 {
                held.by_holder.remove(&holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::KeyId;

    #[test]
    fn a_dropped_permit_is_free_again_and_its_holder_is_forgotten() {
        let permits = Arc::new(StreamPermits::new(3, 2));
        let [one, other] = [(); 2].map(|()| Some(LimitHolder::Key(KeyId::new())));
        let acquire = |holder| Arc::clone(&permits).acquire(holder);
        let refused = |holder| acquire(holder).unwrap_err();
        let first = acquire(one).unwrap();
        let second = acquire(one).unwrap();
        assert_eq!(refused(one), "this key");
        let third = acquire(None).unwrap();
        assert_eq!(refused(other), "the service");
        drop(third);
        drop(acquire(other).unwrap());
        drop(first);
        drop((acquire(one).unwrap(), second));
        let held = permits.held();
        assert_eq!((held.all, held.by_holder.len()), (0, 0));
    }
}
