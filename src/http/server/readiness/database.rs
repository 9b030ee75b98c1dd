//! Readiness of the database and of its schema.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::check::{Check, CheckStatus};
use crate::store::connections::{Connections, TenantConnections};
use crate::store::grants::Ungranted;
use crate::store::schema::{SchemaMismatch, SchemaVersion, check_schema};
use crate::store::write_probe::probe_write;
use crate::store::{ErrorClass, StoreError};

/// The lifetime of a cached result, which bounds the load of frequent probes.
const CACHE_LIFETIME: Duration = Duration::from_secs(1);
/// The maximum time for an answer: probes commonly time out after 3 s.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The interval between two writes while they succeed. A failed one is repeated with the next check.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);

/// The pools without which the process cannot serve.
#[derive(Debug, Clone)]
pub struct ProbedPools {
    /// Authentication and admission.
    pub admission: Connections,
    /// Requests of clients; none in a process that does not serve the API.
    pub api: Option<TenantConnections>,
    /// Runs; none in a process that executes none.
    pub worker: Option<Connections>,
}

/// Checks the database, at most once a second for all probes together.
#[derive(Debug, Clone)]
pub struct DatabaseProbe {
    pools: ProbedPools,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    cached: Option<(Instant, DatabaseChecks)>,
    /// The time of the last write that succeeded.
    written_at: Option<Instant>,
}

/// The results of the checks that need the database.
#[derive(Debug, Clone)]
pub(super) struct DatabaseChecks {
    pub(super) database: Check,
    pub(super) schema: Check,
}

impl DatabaseProbe {
    /// A probe of these pools.
    pub fn new(pools: ProbedPools) -> Self {
        Self { pools, state: Arc::default() }
    }

    /// Returns the cached result, or checks again. Concurrent callers share one check.
    pub(super) async fn check(&self) -> DatabaseChecks {
        let mut state = self.state.lock().await;
        if let Some((when, checks)) = &state.cached
            && when.elapsed() < CACHE_LIFETIME
        {
            return checks.clone();
        }
        // Boxed, because the future is large.
        let checks = Box::pin(self.check_now(&mut state.written_at)).await;
        state.cached = Some((Instant::now(), checks.clone()));
        checks
    }

    async fn check_now(&self, written_at: &mut Option<Instant>) -> DatabaseChecks {
        let ProbedPools { admission, api, worker } = &self.pools;
        let api = async {
            let Some(api) = api else { return Ok(()) };
            in_time(async { Ok(api.check().await?) }).await
        };
        let worker = async {
            let Some(worker) = worker else { return Ok(()) };
            in_time(async { Ok(worker.check().await?) }).await
        };
        let (schema, api, worker) = tokio::join!(query_schema(admission), api, worker);
        let is_usable = schema.is_ok();
        let mut checks = DatabaseChecks::of(schema);
        if let Err(error) = api {
            checks.fail("no connection for requests of clients", &error);
        } else if let Err(error) = worker {
            checks.fail("no connection for runs", &error);
        } else if is_usable && written_at.is_none_or(|at| at.elapsed() >= WRITE_INTERVAL) {
            *written_at = None;
            match in_time(admission.with(async |conn| probe_write(conn).await)).await {
                Ok(()) => *written_at = Some(Instant::now()),
                Err(error) => checks.fail(refusal(error.class()), &error),
            }
        }
        checks
    }
}

/// The reason why a write failed, for people.
fn refusal(class: ErrorClass) -> &'static str {
    if class == ErrorClass::Disk {
        "cannot be written: the disk is full or fails"
    } else if class == ErrorClass::ReadOnly {
        "cannot be written: the database is read-only"
    } else {
        "cannot be written"
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timeout(TIMEOUT, work).await.unwrap_or(Err(StoreError::NoAnswer))
}

async fn query_schema(pool: &Connections) -> Result<SchemaVersion, SchemaMismatch> {
    let query = pool.with(async |conn| match check_schema(conn).await {
        Err(error @ SchemaMismatch::Store(_)) => Err(error),
        found => Ok(found),
    });
    timeout(TIMEOUT, query).await.unwrap_or(Err(StoreError::NoAnswer.into()))?
}

impl DatabaseChecks {
    fn of(found: Result<SchemaVersion, SchemaMismatch>) -> Self {
        let reachable = || Check::new(CheckStatus::Ok, "reachable");
        let (database, status, detail) = match found {
            Ok(version @ SchemaVersion { found, known }) if version.is_newer() => {
                let detail = format!("at {found}, newer than {known} of this version");
                (reachable(), CheckStatus::Warning, detail.into())
            }
            Ok(_) => (reachable(), CheckStatus::Ok, "matches this version".into()),
            Err(SchemaMismatch::Newer { found, required, known }) => {
                let detail = format!(
                    "at {found}, requires a program that knows migration {required}, this version \
                     knows {known}: start the version that migrated it"
                );
                (reachable(), CheckStatus::Failed, detail.into())
            }
            Err(SchemaMismatch::Older { found, expected }) => {
                let detail =
                    format!("at {found}, this version needs {expected}: run `twostep migrate`");
                (reachable(), CheckStatus::Failed, detail.into())
            }
            Err(SchemaMismatch::Missing) => {
                (reachable(), CheckStatus::Failed, "missing: run `twostep migrate`".into())
            }
            Err(SchemaMismatch::Ungranted(Ungranted { statements })) => {
                let missing = statements.join(" ");
                let detail = format!("missing grants, `twostep migrate` adds them: {missing}");
                (reachable(), CheckStatus::Failed, detail.into())
            }
            Err(SchemaMismatch::Store(error)) => {
                tracing::debug!(%error, "database check failed");
                let database = Check::new(CheckStatus::Failed, "unreachable");
                (database, CheckStatus::Failed, Cow::from("unknown: the database is unreachable"))
            }
        };
        Self { database, schema: Check::new(status, detail) }
    }

    /// Fails the check of the database, unless it has failed for another reason.
    fn fail(&mut self, detail: &'static str, error: &StoreError) {
        tracing::debug!(%error, detail, "database check failed");
        if self.database.status == CheckStatus::Ok {
            self.database = Check::new(CheckStatus::Failed, detail);
        }
    }
}
