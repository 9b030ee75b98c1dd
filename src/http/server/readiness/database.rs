//! Readiness of the database and of its schema.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::check::{Check, CheckStatus};
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::grants::Ungranted;
use crate::store::schema::{SchemaMismatch, SchemaVersion, check_schema};

/// The lifetime of a cached result, which bounds the load of frequent probes.
const CACHE_LIFETIME: Duration = Duration::from_secs(1);
/// The maximum time for an answer: probes commonly time out after 3 s.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Checks the database, at most once a second for all probes together.
#[derive(Debug, Clone, Default)]
pub struct DatabaseProbe(Arc<Mutex<Option<(Instant, DatabaseChecks)>>>);

/// The results of the checks that need the database.
#[derive(Debug, Clone)]
pub(super) struct DatabaseChecks {
    pub(super) database: Check,
    pub(super) schema: Check,
}

impl DatabaseProbe {
    /// Returns the cached result, or checks again. Concurrent callers share one check.
    pub(super) async fn check(&self, pool: &Connections) -> DatabaseChecks {
        let mut cached = self.0.lock().await;
        if let Some((when, checks)) = &*cached
            && when.elapsed() < CACHE_LIFETIME
        {
            return checks.clone();
        }
        let found = timeout(TIMEOUT, query_schema(pool)).await;
        let checks = DatabaseChecks::of(found.unwrap_or(Err(StoreError::NoAnswer.into())));
        *cached = Some((Instant::now(), checks.clone()));
        checks
    }
}

async fn query_schema(pool: &Connections) -> Result<SchemaVersion, SchemaMismatch> {
    pool.with(async |conn| match check_schema(conn).await {
        Err(error @ SchemaMismatch::Store(_)) => Err(error),
        found => Ok(found),
    })
    .await?
}

impl DatabaseChecks {
    fn of(found: Result<SchemaVersion, SchemaMismatch>) -> Self {
        let reachable = || Check::new(CheckStatus::Ok, "reachable");
        let (database, status, detail) = match found {
            Ok(SchemaVersion { found, known }) if found > known => {
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
}
