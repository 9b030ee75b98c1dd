//! The connection pools of a process: one for each use, so that none can starve another.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, PgConnection, PgPool};

use super::roles;

/// The use of a pool.
#[derive(Debug, Clone, Copy)]
pub enum PoolRole {
    /// Migrations, as the login user.
    Login,
    /// Requests of clients, each on the rows of one tenant.
    Api,
    /// Authentication and admission of requests.
    Admission,
    /// Runs.
    Worker,
    /// Renewing leases.
    Heartbeat,
    /// LISTEN and NOTIFY between processes.
    Bus,
}

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_LIFETIME: Duration = Duration::from_mins(30);

/// The maximum number of connections of a pool, if the server allows a process as many as it can use.
const POOL_SIZE: u32 = 8;
/// One connection listens, the other notifies.
const BUS: u32 = 2;

/// The parts of a process that use the database.
#[derive(Debug, Clone, Copy)]
pub struct ProcessParts {
    /// The process serves the API.
    pub serves: bool,
    /// The process executes runs.
    pub works: bool,
}

impl ProcessParts {
    /// The number of connections without which the process cannot work: one for each use.
    pub fn minimum(self) -> u32 {
        self.pools() + BUS + u32::from(self.works)
    }

    /// The maximum number of connections that the process uses, unless the operator allows more.
    pub fn maximum(self) -> u32 {
        // One connection renews leases, and one is being closed because it no longer answers.
        let heartbeat = if self.works { 2 } else { 0 };
        self.pools() * POOL_SIZE + BUS + heartbeat
    }

    /// The number of pools that grow with the load.
    fn pools(self) -> u32 {
        1 + u32::from(self.serves) + u32::from(self.works)
    }
}

/// The maximum number of connections of each pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSizes {
    api: u32,
    admission: u32,
    worker: u32,
    heartbeat: u32,
}

impl PoolSizes {
    /// Divides this number of connections among the pools of a process. It is at least
    /// [`ProcessParts::minimum`].
    pub fn divide(total: u32, parts: ProcessParts) -> Self {
        let spare = total.saturating_sub(parts.minimum());
        // A process with few connections renews its leases on a single one.
        let heartbeat = u32::from(parts.works) + u32::from(parts.works && spare >= parts.pools());
        let rest = total.saturating_sub(BUS + heartbeat).max(parts.pools());
        let (each, more) = (rest / parts.pools(), rest % parts.pools());
        let (worker, api) = (u32::from(more > 0), u32::from(more > 1 || more > 0 && !parts.works));
        Self { api: each + api, admission: each, worker: each + worker, heartbeat }
    }

    const fn of(self, role: PoolRole) -> u32 {
        match role {
            PoolRole::Login => 1,
            PoolRole::Api => self.api,
            PoolRole::Admission => self.admission,
            PoolRole::Worker => self.worker,
            PoolRole::Heartbeat => self.heartbeat,
            PoolRole::Bus => BUS,
        }
    }
}

impl Default for PoolSizes {
    /// The sizes of a process that serves the API and executes runs, on a server with enough
    /// connections.
    fn default() -> Self {
        Self { api: POOL_SIZE, admission: POOL_SIZE, worker: POOL_SIZE, heartbeat: 2 }
    }
}

impl PoolRole {
    const fn name(self) -> &'static str {
        match self {
            Self::Login => "twostep login",
            Self::Api => "twostep api",
            Self::Admission => "twostep admission",
            Self::Worker => "twostep worker",
            Self::Heartbeat => "twostep heartbeat",
            Self::Bus => "twostep bus",
        }
    }

    /// The role of its connections. Neither role owns tables, so that row-level security applies.
    const fn database_role(self) -> Option<&'static str> {
        match self {
            Self::Login => None,
            Self::Api => Some(roles::TENANT),
            Self::Admission | Self::Worker | Self::Heartbeat | Self::Bus => Some(roles::SERVICE),
        }
    }
}

/// Returns a pool of the default size that connects at its first use.
pub fn pool(options: &PgConnectOptions, role: PoolRole) -> PgPool {
    sized_pool(options, role, PoolSizes::default())
}

/// Returns a pool that connects at its first use.
///
/// No statement of the service takes long; the timeouts end those that hang on a lock or on a dying
/// server. An idle transaction is terminated before the callers that wait for its locks time out.
pub fn sized_pool(options: &PgConnectOptions, role: PoolRole, sizes: PoolSizes) -> PgPool {
    let options = options.clone().application_name(role.name()).options([
        ("statement_timeout", "15s"),
        ("lock_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "3s"),
        // Compilation takes hundreds of milliseconds, and these statements take few. The server compiles
        // those whose cost it estimates to be high, for example while its statistics are old.
        ("jit", "off"),
    ]);
    let options = match role {
        // Planning the statement of a step takes several times as long as its execution. Its plan is the
        // same for all values, but the server would sometimes plan it again for each execution.
        // `Connections` discards plans that were made for small tables.
        PoolRole::Worker => options.options([("plan_cache_mode", "force_generic_plan")]),
        PoolRole::Login
        | PoolRole::Api
        | PoolRole::Admission
        | PoolRole::Heartbeat
        | PoolRole::Bus => options,
    };
    let options = match role.database_role() {
        Some(name) => options.options([("role", name)]),
        // A migration may be slow, and its whole text would be logged.
        None => options.disable_statement_logging(),
    };
    PgPoolOptions::new()
        .max_connections(sizes.of(role).max(1))
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .max_lifetime(MAX_LIFETIME)
        .test_before_acquire(false)
        .connect_lazy_with(options)
}

/// The connections that the server grants to the login user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The smallest of the limits of the server without reserved connections, the database and the user.
    pub usable: u32,
    /// The connections of all users that are open now.
    pub open: u32,
}

/// Reads the connection limits of the server, the database and the login user.
pub async fn connection_limits(conn: &mut PgConnection) -> Result<ConnectionLimits, sqlx::Error> {
    let limits = sqlx::query!(
        r#"SELECT least(
                      current_setting('max_connections')::int
                      - current_setting('superuser_reserved_connections')::int
                      -- Postgres 16 and later.
                      - coalesce(current_setting('reserved_connections', true)::int, 0),
                      -- Not for superusers; -1 is no limit.
                      CASE WHEN NOT rolsuper AND rolconnlimit >= 0 THEN rolconnlimit END,
                      CASE WHEN NOT rolsuper AND datconnlimit >= 0 THEN datconnlimit END)
                      AS "usable!",
                  (SELECT count(*) FROM pg_stat_activity
                   WHERE backend_type = 'client backend')::int AS "open!"
           FROM pg_roles, pg_database
           WHERE rolname = session_user AND datname = current_database()"#
    )
    .fetch_one(conn)
    .await?;
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    Ok(ConnectionLimits { usable: count(limits.usable), open: count(limits.open) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVE: ProcessParts = ProcessParts { serves: true, works: true };
    const API: ProcessParts = ProcessParts { serves: true, works: false };
    const WORKER: ProcessParts = ProcessParts { serves: false, works: true };

    fn sum(sizes: PoolSizes, parts: ProcessParts) -> u32 {
        let PoolSizes { api, admission, worker, heartbeat } = sizes;
        let (api, worker) = (api * u32::from(parts.serves), worker * u32::from(parts.works));
        api + admission + worker + heartbeat + BUS
    }

    #[test]
    fn the_pools_of_a_process_share_all_of_its_connections_and_none_is_empty() {
        for parts in [SERVE, API, WORKER] {
            for total in parts.minimum()..=100 {
                let sizes = PoolSizes::divide(total, parts);
                assert_eq!(sum(sizes, parts), total, "{parts:?} {sizes:?}");
                assert!(sizes.admission > 0 && (!parts.works || sizes.heartbeat > 0));
                assert!((!parts.serves || sizes.api > 0) && (!parts.works || sizes.worker > 0));
            }
        }
    }

    #[test]
    fn a_process_on_a_large_server_has_eight_connections_for_each_use() {
        assert_eq!(PoolSizes::divide(SERVE.maximum(), SERVE), PoolSizes::default());
        let known = [SERVE, API, WORKER].map(|parts| (parts.minimum(), parts.maximum()));
        assert_eq!(known, [(6, 28), (4, 18), (5, 20)]);
    }
}
