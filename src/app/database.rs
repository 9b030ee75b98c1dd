//! The way to the database, and what has to be there before anybody is served.

use anyhow::{Context as _, bail};
use sqlx::migrate::MigrateError;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgPool};

use crate::config::{Database, Listen};
use crate::store::api_keys::has_valid_key;
use crate::store::connections::{Connections, TenantConnections};
use crate::store::{self, PoolRole, grants, roles};
use private_postgres::PrivatePostgres;

/// Connections to the database, apart by purpose.
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
        let pool = |role| store::pool(options, role);
        Self {
            api: pool(PoolRole::Api).into(),
            admission: pool(PoolRole::Admission).into(),
            worker: pool(PoolRole::Worker).into(),
            heartbeat: pool(PoolRole::Heartbeat).into(),
            bus: pool(PoolRole::Bus),
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

/// Connections to a database that is up to date and lets somebody in, and the private server if
/// there is to be one.
pub(super) async fn open_pools(
    database: Database,
    listen: &Listen,
) -> anyhow::Result<(Pools, Option<PrivatePostgres>)> {
    let (options, private_postgres) = open_database(database).await?;
    let pools = Pools::of(&bring_up_to_date(options).await?);
    check_keys(listen, &pools.admission).await?;
    Ok((pools, private_postgres))
}

/// The way to the database, and the private server if there is to be one.
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

/// Brings the schema up to this version, and makes sure that the service may work with it.
/// The way to its tables is what is given back, whoever a connection works as.
pub async fn bring_up_to_date(options: PgConnectOptions) -> anyhow::Result<PgConnectOptions> {
    let pool = migrate(&options).await?;
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

/// Brings the schema up to this version, grants what is missing, and says what that was. Only who
/// asks for it gets that: what an administrator has taken away does not come back by itself.
pub async fn bring_up_to_date_and_grant(options: PgConnectOptions) -> anyhow::Result<Vec<String>> {
    let pool = migrate(&options).await?;
    let mut conn = pool.acquire().await?;
    roles::check(&mut conn).await?;
    let missing = grants::find_missing(&mut conn).await?;
    if let Some(missing) = &missing {
        grants::grant(&mut conn, missing).await.context("what is missing cannot be granted")?;
    }
    drop(conn);
    pool.close().await;
    Ok(missing.map(|missing| missing.statements).unwrap_or_default())
}

async fn migrate(options: &PgConnectOptions) -> anyhow::Result<PgPool> {
    let pool = store::pool(options, PoolRole::Login);
    match store::migrate(&pool).await {
        Ok(()) => {}
        // The causes of this one all say the same.
        Err(MigrateError::ExecuteMigration(sqlx::Error::Database(error), version)) => {
            bail!("the migration {version} of the database schema failed: {}", error.message());
        }
        Err(error) => {
            // A pool that waited in vain does not say what for; a single connection does.
            options.connect().await.context("the database cannot be reached")?;
            return Err(error).context("the database schema cannot be brought up to date");
        }
    }
    Ok(pool)
}

/// A service that wants keys and has given none lets nobody in. Only where no other machine is meant
/// to come in may that be a beginning.
async fn check_keys(listen: &Listen, pool: &Connections) -> anyhow::Result<()> {
    let bind = match listen {
        // Who has a token needs no key.
        Listen::Api(serve) if serve.http.needs_keys && serve.http.tokens.is_none() => serve.bind,
        Listen::Api(_) | Listen::Health(_) | Listen::Nowhere => return Ok(()),
    };
    if pool.with(async |conn| has_valid_key(conn).await).await? {
        return Ok(());
    }
    if !bind.ip().is_loopback() {
        bail!(
            "{bind} is for those who have a key, and nobody has one: make one first, with \
             `twostep keys create NAME`, after `twostep migrate` if the database is new"
        );
    }
    tracing::warn!(
        "nobody has a key, so everybody is refused: `twostep keys create NAME` makes one, now or \
         later, and --auth open asks nobody on this machine for one"
    );
    Ok(())
}
