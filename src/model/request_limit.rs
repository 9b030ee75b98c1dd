//! The limit of the requests that a process sends to one provider at once.
//!
//! Requests that wait are admitted in turns of their tenants: a tenant with many requests does not
//! delay another tenant by more than one request in each turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::domain::ids::TenantId;

/// The limit of the requests to one provider at once.
#[derive(Debug)]
pub struct RequestLimit(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// The tenants with waiting requests, in the order of their turns.
    waiting: VecDeque<Waiting>,
}

/// The waiting requests of a tenant, in the order of their arrival.
#[derive(Debug)]
struct Waiting {
    tenant: TenantId,
    requests: VecDeque<oneshot::Sender<RequestPermit>>,
}

/// The right to one request, until it is dropped.
#[derive(Debug)]
pub struct RequestPermit(Option<Arc<RequestLimit>>);

impl RequestLimit {
    /// A limit of this many requests.
    pub fn new(requests: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free: requests, waiting: VecDeque::new() })))
    }

    /// Returns a permit, if one is free and no request waits.
    pub fn try_acquire(self: &Arc<Self>) -> Option<RequestPermit> {
        let mut state = self.state();
        if state.free == 0 || !state.waiting.is_empty() {
            return None;
        }
        state.free -= 1;
        Some(RequestPermit(Some(Arc::clone(self))))
    }

    /// Waits for the turn of a tenant's request. Cancel safe: a request that is dropped gives its permit
    /// to the next one.
    pub async fn acquire(self: &Arc<Self>, tenant: TenantId) -> RequestPermit {
        loop {
            if let Some(permit) = self.try_acquire() {
                return permit;
            }
            let (sender, permit) = oneshot::channel();
            self.state().push(tenant, sender);
            // A permit may have become free before the request was added.
            self.admit_next();
            // The sender is dropped only with the limit, which is borrowed here.
            if let Ok(permit) = permit.await {
                return permit;
            }
        }
    }

    /// Gives free permits to the requests that wait.
    fn admit_next(self: &Arc<Self>) {
        loop {
            let request = {
                let mut state = self.state();
                if state.free == 0 {
                    return;
                }
                let Some(request) = state.pop() else { return };
                state.free -= 1;
                request
            };
            // The permit of a request that no longer waits is free again. The lock is released here,
            // because the drop of a permit takes it.
            let permit = RequestPermit(Some(Arc::clone(self)));
            if let Err(unused) = request.send(permit) {
                unused.release();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, tenant: TenantId, request: oneshot::Sender<RequestPermit>) {
        match self.waiting.iter_mut().find(|waiting| waiting.tenant == tenant) {
            Some(waiting) => waiting.requests.push_back(request),
            None => self.waiting.push_back(Waiting { tenant, requests: [request].into() }),
        }
    }

    /// Removes the next request; its tenant has the last turn from now on.
    fn pop(&mut self) -> Option<oneshot::Sender<RequestPermit>> {
        let mut waiting = self.waiting.pop_front()?;
        let request = waiting.requests.pop_front();
        if !waiting.requests.is_empty() {
            self.waiting.push_back(waiting);
        }
        request
    }
}

impl RequestPermit {
    /// Makes the permit free without giving it to another request.
    fn release(mut self) {
        if let Some(limit) = self.0.take() {
            limit.state().free += 1;
        }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        if let Some(limit) = self.0.take() {
            limit.state().free += 1;
            limit.admit_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn tenants_take_turns_whatever_number_of_requests_each_has() {
        let limit = RequestLimit::new(1);
        let held = limit.acquire(TenantId::new()).await;
        let (busy, quiet) = (TenantId::new(), TenantId::new());
        let mut of_busy: Vec<_> = (0..3).map(|_| Box::pin(limit.acquire(busy))).collect();
        for waiting in &mut of_busy {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        let mut of_quiet = Box::pin(limit.acquire(quiet));
        assert!(of_quiet.as_mut().now_or_never().is_none());
        drop(held);
        let first = of_busy[0].as_mut().now_or_never().unwrap();
        assert!(of_quiet.as_mut().now_or_never().is_none());
        drop(first);
        let second = of_quiet.as_mut().now_or_never().expect("the turn of the other tenant");
        drop(second);
        assert!(of_busy[1].as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_request_that_no_longer_waits_gives_its_permit_to_the_next() {
        let (limit, tenant) = (RequestLimit::new(1), TenantId::new());
        let held = limit.try_acquire().unwrap();
        let mut abandoned: Vec<_> = (0..50).map(|_| Box::pin(limit.acquire(tenant))).collect();
        for waiting in &mut abandoned {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        let mut next = Box::pin(limit.acquire(tenant));
        assert!(next.as_mut().now_or_never().is_none());
        // One of them has received the permit, but does not look.
        let received = abandoned.remove(0);
        drop(abandoned);
        drop(held);
        assert!(next.as_mut().now_or_never().is_none());
        drop(received);
        drop(next.as_mut().now_or_never().unwrap());
        assert!(limit.try_acquire().is_some());
    }
}
