//! Admission: the limit on queued runs, over all sessions and all processes of the database, and the
//! share of each tenant in it.
//!
//! Counting queued runs for every message would cost more than accepting the message. A process
//! counts them at most five times a second, and only while messages are queued; between two counts
//! it adds the runs that it accepts itself. It does not see what other processes accept between two
//! counts, so together they may exceed the limit by the messages of 200 ms.

mod drain_rate;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use drain_rate::DrainRate;

use crate::domain::ids::TenantId;
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::run_queue::{QueueCount, count_queued};

/// How long a count is valid.
const FRESH: Duration = Duration::from_millis(200);

/// Admits messages while the number of queued runs is under the limit.
///
/// If several tenants have sessions, a tenant may queue as many runs as positions remain free: half of
/// the queue if no other tenant has queued runs, a third if one other tenant does the same. So no
/// tenant can fill the queue. A tenant may use all of it if no other tenant has sessions.
#[derive(Debug)]
pub(crate) struct Admission {
    max: i64,
    state: Mutex<State>,
    /// Held while runs are counted, so that concurrent messages share one count.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    tenants: HashMap<TenantId, Load>,
    /// Several tenants have sessions.
    is_shared: bool,
    counted_at: Option<Instant>,
    drain: DrainRate,
}

/// The queued runs of a tenant, as far as this process knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    counted: i64,
    /// Runs of this process that were queued since the count began.
    added: i64,
    /// Messages that may be queued, but have not been accepted yet.
    pending: i64,
}

impl Load {
    const fn total(self) -> i64 {
        self.counted + self.added + self.pending
    }
}

/// The refusal of a message because too many runs are queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overload {
    /// The queued runs that count: those of all tenants, or those of this one.
    queued: i64,
    limit: i64,
    /// The limit is the tenant's share.
    is_share: bool,
    /// The time in which there will probably be room.
    pub retry_after: Duration,
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queued, limit, is_share, retry_after } = self;
        if *is_share {
            write!(
                f,
                "{queued} runs of this tenant are queued; at most {limit} are allowed now, "
            )?;
            write!(f, "because other tenants use the service")?;
        } else {
            write!(f, "too many runs are queued: {queued}; at most {limit} are allowed")?;
        }
        write!(f, "; try again in {} seconds", retry_after.as_secs())
    }
}

impl State {
    fn queued(&self) -> i64 {
        self.tenants.values().map(|load| load.total()).sum()
    }

    fn queued_of(&self, tenant: TenantId) -> i64 {
        self.tenants.get(&tenant).copied().unwrap_or_default().total()
    }

    /// The reason why a message of a tenant is refused, if it is.
    fn overload(&self, max: i64, tenant: TenantId) -> Option<Overload> {
        let (queued, own) = (self.queued(), self.queued_of(tenant));
        let free = max - queued;
        if free > 0 && (!self.is_shared || own < free) {
            return None;
        }
        if free <= 0 {
            let retry_after = self.drain.time_for_room(-free, max, 1);
            return Some(Overload { queued, limit: max, is_share: false, retry_after });
        }
        // The tenants take turns, so a tenant gets its part of the slots that become free. Every run
        // of it that starts also makes its share larger.
        let active = self.tenants.values().filter(|load| load.total() > 0).count();
        let retry_after = self.drain.time_for_room((own - free) / 2, free, active);
        Some(Overload { queued: own, limit: free, is_share: true, retry_after })
    }

    fn load(&mut self, tenant: TenantId) -> &mut Load {
        self.tenants.entry(tenant).or_default()
    }

    /// Takes over a count that began when `seen` was what this process had added.
    fn set_count(&mut self, count: &QueueCount, seen: &HashMap<TenantId, i64>) {
        for (tenant, load) in &mut self.tenants {
            load.counted = 0;
            load.added -= seen.get(tenant).copied().unwrap_or_default();
        }
        for queue in &count.tenants {
            self.load(queue.tenant).counted = queue.length;
        }
        self.tenants.retain(|_, load| *load != Load::default());
        self.is_shared = count.is_shared;
        let length = count.tenants.iter().map(|queue| queue.length).sum();
        let earlier = count.tenants.iter().map(|queue| queue.earlier).sum();
        self.drain.count(count.at, length, earlier);
    }
}

impl Admission {
    /// Admits at most `max` queued runs.
    pub(crate) fn new(max: u32) -> Self {
        let counting = tokio::sync::Mutex::default();
        Self { max: max.into(), state: Mutex::default(), counting }
    }

    /// Reserves capacity for a run that may be queued, unless a limit is reached.
    pub(crate) async fn reserve(
        &self,
        pool: &Connections,
        tenant: TenantId,
    ) -> Result<Result<QueuePermit<'_>, Overload>, StoreError> {
        let permit = self.free_permit(tenant);
        if permit.is_ok() || self.is_fresh() {
            return Ok(permit);
        }
        self.count(pool).await?;
        Ok(self.free_permit(tenant))
    }

    fn free_permit(&self, tenant: TenantId) -> Result<QueuePermit<'_>, Overload> {
        let mut state = self.state();
        if let Some(overload) = state.overload(self.max, tenant) {
            return Err(overload);
        }
        state.load(tenant).pending += 1;
        Ok(QueuePermit { admission: self, tenant, is_used: false })
    }

    /// Counts the queued runs, unless a valid count exists. Runs that are added during the count may
    /// be counted twice, until the next count.
    async fn count(&self, pool: &Connections) -> Result<(), StoreError> {
        let _counting = self.counting.lock().await;
        if self.is_fresh() {
            return Ok(());
        }
        let begun_at = Instant::now();
        let (since, seen) = {
            let state = self.state();
            let seen = state.tenants.iter().map(|(tenant, load)| (*tenant, load.added)).collect();
            (state.drain.counted_at(), seen)
        };
        let count = pool.with(async |conn| count_queued(conn, since).await).await?;
        let mut state = self.state();
        state.set_count(&count, &seen);
        state.counted_at = Some(begun_at);
        Ok(())
    }

    fn is_fresh(&self) -> bool {
        self.state().counted_at.is_some_and(|counted_at| counted_at.elapsed() < FRESH)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserved capacity for one queued run; released when it is dropped.
#[derive(Debug)]
pub(crate) struct QueuePermit<'a> {
    admission: &'a Admission,
    tenant: TenantId,
    is_used: bool,
}

impl QueuePermit<'_> {
    /// Records that the run was queued. The count is refreshed while messages are queued.
    pub(crate) async fn record_queued(mut self, pool: &Connections) {
        let admission = self.admission;
        self.is_used = true;
        drop(self);
        if !admission.is_fresh()
            && let Err(error) = admission.count(pool).await
        {
            tracing::warn!(%error, "queued runs could not be counted");
        }
    }
}

impl Drop for QueuePermit<'_> {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        let load = state.load(self.tenant);
        load.pending -= 1;
        load.added += i64::from(self.is_used);
        if *load == Load::default() {
            state.tenants.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::database;

    impl Admission {
        fn set_counted_at(&self, counted_at: Option<Instant>) {
            self.state().counted_at = counted_at;
        }
    }

    #[tokio::test]
    async fn permits_are_granted_up_to_the_limit_and_again_once_nothing_is_queued() {
        let database = database().await;
        let pool = Connections::from(database.pool(1));
        let admission = Admission::new(2);
        let permit = async || admission.reserve(&pool, TenantId::DEFAULT).await.unwrap();
        // The test decides when the count expires.
        admission.set_counted_at(Some(Instant::now() + Duration::from_hours(1)));
        let (one, two) = (permit().await.unwrap(), permit().await.unwrap());
        assert!(permit().await.is_err(), "two permits are in use");
        drop(one);
        let three = permit().await.expect("a dropped permit is free again");
        two.record_queued(&pool).await;
        three.record_queued(&pool).await;
        assert!(permit().await.is_err(), "two runs are queued, by this process's figures");
        admission.set_counted_at(None);
        assert!(permit().await.is_ok(), "a new count finds no queued run");
    }

    #[tokio::test]
    async fn an_unavailable_database_is_queried_only_at_the_limit() {
        let database = database().await;
        let pool = Connections::from(database.pool(1));
        pool.close().await;
        let admission = Admission::new(1);
        let reserve = async || admission.reserve(&pool, TenantId::DEFAULT).await;
        let permit = reserve().await.unwrap().expect("nothing is queued");
        permit.record_queued(&pool).await;
        assert!(reserve().await.is_err());
    }

    /// The numbers of runs that tenants can queue who fill the queue one after the other.
    fn filled(is_shared: bool, tenants: usize) -> Vec<i64> {
        let mut state = State { is_shared, ..State::default() };
        let fill = |_| {
            let tenant = TenantId::new();
            while state.overload(1000, tenant).is_none() {
                state.load(tenant).added += 1;
            }
            state.queued_of(tenant)
        };
        (0..tenants).map(fill).collect()
    }

    #[test]
    fn no_tenant_can_fill_a_shared_queue() {
        assert_eq!(filled(true, 5), [500, 250, 125, 63, 31]);
    }

    #[test]
    fn a_tenant_that_has_the_service_to_itself_can_fill_the_queue() {
        assert_eq!(filled(false, 1), [1000]);
    }

    #[test]
    fn tenants_that_fill_the_queue_together_get_equal_shares() {
        let mut state = State { is_shared: true, ..State::default() };
        let tenants = [TenantId::new(), TenantId::new(), TenantId::new()];
        for _ in 0..1000 {
            for tenant in tenants {
                if state.overload(1000, tenant).is_none() {
                    state.load(tenant).added += 1;
                }
            }
        }
        assert_eq!(tenants.map(|tenant| state.queued_of(tenant)), [250, 250, 250]);
    }
}
