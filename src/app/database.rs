//! Connections to the database, its schema, and the check for keys before the service starts.

use anyhow::{Context as _, bail};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection, PgPool};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Database, Listen};
use crate::store::api_keys::has_valid_key;
use crate::store::connections::{Connections, TenantConnections};
use crate::store::schema::{MIGRATIONS, MigrationError, SchemaVersion, Waits, apply_missing};
use crate::store::{ErrorClass, PoolRole, grants, pool, roles};
use private_postgres::PrivatePostgres;

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
    pub(super) fn of(options: &PgConnectOptions) -> Self {
        let of = |role| pool(options, role);
        Self {
            api: of(PoolRole::Api).into(),
            admission: of(PoolRole::Admission).into(),
            worker: of(PoolRole::Worker).into(),
            heartbeat: of(PoolRole::Heartbeat).into(),
            bus: of(PoolRole::Bus),
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
    let pools = Pools::of(&options);
    check_keys(&config.listen, &pools.admission).await?;
    Ok((pools, private_postgres))
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
async fn connect(options: &PgConnectOptions) -> anyhow::Result<PgConnection> {
    options.connect().await.map_err(|error| {
        let context = match ErrorClass::of(&error) {
            ErrorClass::TooManyConnections => {
                "the database has no free connection: raise max_connections of the server, or lower \
                 --database-connections of the processes that use it"
            }
            _ => "the database cannot be reached",
        };
        anyhow::Error::from(error).context(context)
    })
}

/// Checks that a service that requires keys has at least one valid key. Without a key it starts
/// only at a loopback address, with a warning.
async fn check_keys(listen: &Listen, pool: &Connections) -> anyhow::Result<()> {
    let bind = match listen {
        // Callers with a token need no key.
        Listen::Api(serve) if serve.http.needs_keys && serve.http.tokens.is_none() => serve.bind,
        Listen::Api(_) | Listen::Health(_) | Listen::Nowhere => return Ok(()),
    };
    if pool.with(async |conn| has_valid_key(conn).await).await? {
        return Ok(());
    }
    if !bind.ip().is_loopback() {
        bail!(
            "{bind} requires an API key, and there is none: create one with \
             `twostep keys create NAME`, after `twostep migrate` if the database is new"
        );
    }
    tracing::warn!(
        "there is no API key, so all requests are refused: create one with `twostep keys create \
         NAME`, or accept callers of this machine without a key with --auth open"
    );
    Ok(())
}
