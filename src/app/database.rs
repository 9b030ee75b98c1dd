//! Connections to the database and its schema.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection, PgPool};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::first_key::check_keys;
use crate::config::{Config, Database, Listen};
use crate::http::ProbedPools;
use crate::store::connections::{Connections, TenantConnections};
use crate::store::schema::{MIGRATIONS, MigrationError, SchemaVersion, Waits, apply_missing};
use crate::store::{
    ConnectionLimits, ErrorClass, PoolRole, PoolSizes, ProcessParts, connection_limits, grants,
    pool, roles, sized_pool,
};
use private_postgres::PrivatePostgres;

/// Interval between two checks for connections that have been idle for long.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The connection pools, one per purpose.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) api: TenantConnections,
    pub(super) admission: Connections,
    pub(super) worker: Connections,
    pub(super) heartbeat: Connections,
    pub(super) bus: PgPool,
}

impl Pools {
    pub(super) fn of(options: &PgConnectOptions, sizes: PoolSizes) -> Self {
        let pool = |role| sized_pool(options, role, sizes);
        Self {
            api: pool(PoolRole::Api).into(),
            admission: pool(PoolRole::Admission).into(),
            worker: pool(PoolRole::Worker).into(),
            heartbeat: pool(PoolRole::Heartbeat).into(),
            bus: pool(PoolRole::Bus),
        }
    }

    /// The pools without which a process is not ready.
    pub(super) fn probed(&self, listen: &Listen, works: bool) -> ProbedPools {
        ProbedPools {
            admission: self.admission.clone(),
            api: matches!(listen, Listen::Api(_)).then(|| self.api.clone()),
            worker: works.then(|| self.worker.clone()),
        }
    }

    /// Closes connections that have been idle for long, without end: other processes of the database
    /// may need them.
    pub(super) fn close_idle_periodically(&self) -> impl Future<Output = ()> + Send + use<> {
        let (api, admission) = (self.api.clone(), self.admission.clone());
        let (worker, heartbeat) = (self.worker.clone(), self.heartbeat.clone());
        async move {
            let mut ticks = interval(IDLE_CHECK_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                api.close_idle();
                [&admission, &worker, &heartbeat].into_iter().for_each(Connections::close_idle);
            }
        }
    }

    pub(super) async fn close(self) {
        self.api.close().await;
        self.admission.close().await;
        self.worker.close().await;
        self.heartbeat.close().await;
        self.bus.close().await;
    }
}

/// Opens the pools of a database with a current schema, and starts the private server if one is
/// configured. Fails if no caller could be accepted.
pub(super) async fn open_pools(
    config: &Config,
    shutdown: &CancellationToken,
) -> anyhow::Result<(Pools, Option<PrivatePostgres>)> {
    let (options, private_postgres) = open_database(config.database.clone()).await?;
    let Some(options) = shutdown.run_until_cancelled(bring_up_to_date(options)).await else {
        if let Some(private_postgres) = private_postgres {
            private_postgres.stop().await?;
        }
        bail!("stopped before the database schema was up to date");
    };
    let options = options?;
    let serves = matches!(config.listen, Listen::Api(_));
    let parts = ProcessParts { serves, works: config.work.is_some() };
    let limits = connection_limits(&mut connect(&options).await?).await?;
    let total = number_of_connections(parts, limits, config.database_connections)?;
    let pools = Pools::of(&options, PoolSizes::divide(total, parts));
    check_keys(&config.listen, &pools.admission).await?;
    Ok((pools, private_postgres))
}

/// The number of connections of this process: what the operator allows, or what it can use, but at most
/// half of the connections that the server grants, so that there are some for a second process and for
/// commands.
fn number_of_connections(
    parts: ProcessParts,
    limits: ConnectionLimits,
    allowed: Option<u32>,
) -> anyhow::Result<u32> {
    let (minimum, maximum) = (parts.minimum(), parts.maximum());
    let ConnectionLimits { usable, open } = limits;
    if usable < minimum {
        bail!(
            "the database server grants {usable} connections, and this process needs at least \
             {minimum}: raise max_connections of the server, or the CONNECTION LIMIT of the database \
             or the user"
        );
    }
    let Some(allowed) = allowed else {
        let total = maximum.min((usable / 2).max(minimum));
        if total < maximum {
            tracing::warn!(
                connections = total,
                usable,
                open,
                "few database connections: this process would use {maximum}; raise \
                 max_connections of the server, or set --database-connections"
            );
        }
        return Ok(total);
    };
    if allowed < minimum {
        bail!("--database-connections is {allowed}, and this process needs at least {minimum}");
    }
    if allowed > usable {
        bail!(
            "--database-connections is {allowed}, and the database server grants {usable}: lower the \
             option, or raise max_connections of the server, or the CONNECTION LIMIT of the database \
             or the user"
        );
    }
    Ok(allowed)
}

/// Returns the options for connections, and starts the private server if one is configured.
pub async fn open_database(
    database: Database,
) -> anyhow::Result<(PgConnectOptions, Option<PrivatePostgres>)> {
    Ok(match database {
        Database::Server(options) => (*options, None),
        Database::Private(options) => {
            let private_postgres = PrivatePostgres::start(&options).await?;
            (private_postgres.connect_options(), Some(private_postgres))
        }
    })
}

/// Migrates the schema to this version, and checks the roles and grants of the service. Returns the
/// options for connections, with a `search_path` that holds for every role.
pub async fn bring_up_to_date(options: PgConnectOptions) -> anyhow::Result<PgConnectOptions> {
    let (pool, _) = migrate(&options).await?;
    let mut conn = pool.acquire().await?;
    roles::check(&mut conn).await?;
    if let Some(missing) = grants::find_missing(&mut conn).await? {
        return Err(missing.into());
    }
    let schema = roles::schema(&mut conn).await?.unwrap_or_default();
    drop(conn);
    pool.close().await;
    Ok(options.options([("search_path", schema)]))
}

/// Migrates the schema to this version, grants the missing privileges, and returns the version and the
/// statements that granted them. Only `twostep migrate` does this: the service does not restore
/// privileges that an administrator has revoked.
pub async fn bring_up_to_date_and_grant(
    options: PgConnectOptions,
) -> anyhow::Result<(SchemaVersion, Vec<String>)> {
    let (pool, version) = migrate(&options).await?;
    let mut conn = pool.acquire().await?;
    roles::check(&mut conn).await?;
    let missing = grants::find_missing(&mut conn).await?;
    if let Some(missing) = &missing {
        grants::grant(&mut conn, missing)
            .await
            .context("the missing privileges cannot be granted")?;
    }
    drop(conn);
    pool.close().await;
    Ok((version, missing.map(|missing| missing.statements).unwrap_or_default()))
}

/// Migrates the schema, and returns the pool of the login user.
async fn migrate(options: &PgConnectOptions) -> anyhow::Result<(PgPool, SchemaVersion)> {
    let pool = pool(options, PoolRole::Login);
    match apply_missing(&pool, &MIGRATIONS, Waits::default()).await {
        Ok(version) => Ok((pool, version)),
        Err(MigrationError::Database(error)) if ErrorClass::of(&error).may_pass() => {
            // The timeout of a pool hides the cause; a single connection reports it.
            connect(options).await?;
            Err(MigrationError::Database(error).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens a single connection. The error has the reason and the remedy.
pub async fn connect(options: &PgConnectOptions) -> anyhow::Result<PgConnection> {
    options.connect().await.map_err(|error| {
        let is_full = ErrorClass::of(&error) == ErrorClass::TooManyConnections;
        // sqlx repeats the message of the server in the text of its error.
        let cause = error
            .as_database_error()
            .map_or_else(|| error.to_string(), |cause| cause.message().to_owned());
        if is_full {
            return anyhow!(
                "the database has no free connection ({cause}): raise max_connections of the \
                 server, or lower --database-connections of the processes that use it"
            );
        }
        anyhow!("the database cannot be reached: {cause}")
    })
}
