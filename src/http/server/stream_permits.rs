//! StreamPermits for streams, and for requests that wait: so many in all, and so many for each key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::pass::Holder;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::state::Api;

/// How many streams or requests are held.
#[derive(Debug)]
pub(in crate::http) struct StreamPermits {
    max: usize,
    max_per_holder: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Only of those who have a stream.
    by_holder: HashMap<Holder, usize>,
}

impl StreamPermits {
    pub(in crate::http) fn new(max: usize, max_per_holder: usize) -> Self {
        Self { max, max_per_holder, taken: Mutex::default() }
    }

    /// A place; else who has too many.
    fn take(self: Arc<Self>, holder: Option<Holder>) -> Result<StreamPermit, &'static str> {
        let mut taken = self.taken();
        let of_holder =
            holder.and_then(|holder| taken.by_holder.get(&holder).copied()).unwrap_or(0);
        if taken.all >= self.max {
            return Err("the service");
        }
        if of_holder >= self.max_per_holder {
            return Err("this key");
        }
        taken.all += 1;
        if let Some(holder) = holder {
            taken.by_holder.insert(holder, of_holder + 1);
        }
        drop(taken);
        Ok(StreamPermit { permits: self, holder })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one of those that are held at a time.
#[derive(Debug)]
pub(in crate::http) struct StreamPermit {
    permits: Arc<StreamPermits>,
    holder: Option<Holder>,
}

impl StreamPermit {
    /// A place, if there is one, and somebody to serve it. Callers without a key share the places of
    /// the service.
    pub(in crate::http) fn acquire(api: &Api, caller: Caller) -> Result<Self, ApiError> {
        if api.draining.is_cancelled() {
            return Err(ApiError::Draining);
        }
        Arc::clone(&api.stream_permits).take(caller.holder()).map_err(ApiError::TooManyStreams)
    }

    /// A place to wait for an answer; there are as many as for streams.
    pub(in crate::http) fn acquire_wait(api: &Api, caller: Caller) -> Result<Self, ApiError> {
        Arc::clone(&api.wait_permits).take(caller.holder()).map_err(ApiError::TooManyWaits)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut taken = self.permits.taken();
        taken.all -= 1;
        if let Some(holder) = self.holder
            && let Some(held) = taken.by_holder.get_mut(&holder)
        {
            *held -= 1;
            if *held == 0 {
                taken.by_holder.remove(&holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::KeyId;

    #[test]
    fn a_place_that_is_left_is_free_and_nothing_is_remembered_of_it() {
        let places = Arc::new(StreamPermits::new(3, 2));
        let [one, other] = [(); 2].map(|()| Some(Holder::Key(KeyId::new())));
        let take = |holder| Arc::clone(&places).take(holder);
        let refused = |holder| take(holder).unwrap_err();
        let first = take(one).unwrap();
        let second = take(one).unwrap();
        assert_eq!(refused(one), "this key");
        let third = take(None).unwrap();
        assert_eq!(refused(other), "the service");
        drop(third);
        drop(take(other).unwrap());
        drop(first);
        drop((take(one).unwrap(), second));
        let taken = places.taken();
        assert_eq!((taken.all, taken.by_holder.len()), (0, 0));
    }
}
