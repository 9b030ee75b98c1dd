//! What is looked at before the process is said to be ready.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::domain::circuit::Circuit;
use crate::domain::tool_server::ToolServerReport;
use crate::http::state::Health;
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::grants::Ungranted;
use crate::store::verify::{SchemaMismatch, check_schema};
use crate::tools::lease::LeaseClock;

/// How long it is believed what was seen of the database: a flood of probes costs it nothing.
const BELIEVED_FOR: Duration = Duration::from_secs(1);
/// What the database may take to answer. Those who probe rarely wait for longer than 3 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What came of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Check {
    /// Whether it was passed.
    pub(in crate::http) status: CheckStatus,
    /// What was found, for people.
    #[schema(value_type = String)]
    pub(in crate::http) detail: Cow<'static, str>,
}

/// Whether a check was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum CheckStatus {
    /// It was.
    Ok,
    /// Somebody should look, and the process can serve all the same.
    Warning,
    /// It was not, and the process is not ready.
    Failed,
}

impl Check {
    fn new(status: CheckStatus, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, detail: detail.into() }
    }

    fn passed(is_passed: bool, found: &'static str, otherwise: &'static str) -> Self {
        if is_passed {
            Self::new(CheckStatus::Ok, found)
        } else {
            Self::new(CheckStatus::Failed, otherwise)
        }
    }
}

/// All checks by their names; those of what the process does not have are absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Checks {
    /// Whether the process is not about to stop.
    accepting: Check,
    /// Whether the database answers.
    database: Check,
    /// Whether the schema is that of this version. A newer one is a warning: it serves older
    /// versions as well.
    schema: Check,
    /// Whether the worker of this process renews its leases.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<Check>,
    /// Whether the model is asked: `closed`, `half_open` or `open`. While it is not, runs wait, and
    /// that is a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Check>,
    /// How commands of Bash are confined: `full` or `basic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<Check>,
    /// Whether the tool servers are there, each as `mcp:` and its name. One that is not is a
    /// warning: only its own calls fail.
    #[serde(flatten)]
    tool_servers: BTreeMap<String, Check>,
}

impl Checks {
    /// Looks at everything.
    pub(in crate::http) async fn of(health: &Health) -> Self {
        let Seen { database, schema } = health.last_look.at(&health.pool).await;
        let is_draining = health.draining.is_cancelled();
        Self {
            accepting: Check::passed(!is_draining, "it takes requests", "it is stopping"),
            database,
            schema,
            worker: health.worker.as_ref().map(worker),
            model: health.metrics.circuit().map(model),
            sandbox: health.sandbox.map(|level| Check::new(CheckStatus::Ok, level.as_str())),
            tool_servers: health.tool_servers.reports().iter().map(tool_server).collect(),
        }
    }

    /// Whether nothing failed.
    pub(in crate::http) fn are_passed(&self) -> bool {
        // A tool server never keeps a process from being ready.
        let Self { accepting, database, schema, worker, model, sandbox, tool_servers: _ } = self;
        let optional = [worker, model, sandbox].into_iter().flatten();
        let mut all = [accepting, database, schema].into_iter().chain(optional);
        all.all(|check| check.status != CheckStatus::Failed)
    }
}

fn worker(lease: &LeaseClock) -> Check {
    Check::passed(lease.is_fresh(), "it renews its leases", "its leases were not renewed in time")
}

fn model(circuit: Circuit) -> Check {
    match circuit {
        Circuit::Closed => Check::new(CheckStatus::Ok, "closed"),
        Circuit::HalfOpen => Check::new(CheckStatus::Warning, "half_open"),
        Circuit::Open => Check::new(CheckStatus::Warning, "open"),
    }
}

fn tool_server(report: &ToolServerReport) -> (String, Check) {
    let check = match (report.is_connected, report.circuit) {
        (true, Circuit::Closed) => {
            Check::new(CheckStatus::Ok, format!("connected, tools: {}", report.tools))
        }
        (true, Circuit::HalfOpen | Circuit::Open) => {
            Check::new(CheckStatus::Warning, "its calls fail, and it is left alone for a while")
        }
        (false, _) => Check::new(CheckStatus::Warning, "not connected"),
    };
    (format!("mcp:{}", report.name), check)
}

/// What was last seen of the database.
#[derive(Debug, Clone, Default)]
pub struct LastLook(Arc<Mutex<Option<(Instant, Seen)>>>);

#[derive(Debug, Clone)]
struct Seen {
    database: Check,
    schema: Check,
}

impl LastLook {
    /// One looks at a time, and those who come meanwhile get what that one sees.
    async fn at(&self, pool: &Connections) -> Seen {
        let mut last = self.0.lock().await;
        if let Some((when, seen)) = &*last
            && when.elapsed() < BELIEVED_FOR
        {
            return seen.clone();
        }
        let found = timeout(ANSWER_WITHIN, look(pool)).await;
        let seen = Seen::of(found.unwrap_or(Err(StoreError::NoAnswer.into())));
        *last = Some((Instant::now(), seen.clone()));
        seen
    }
}

async fn look(pool: &Connections) -> Result<(), SchemaMismatch> {
    let mut conn = pool.acquire().await?;
    let found = check_schema(&mut conn).await;
    if !matches!(found, Err(SchemaMismatch::Store(_))) {
        conn.give_back();
    }
    found
}

impl Seen {
    fn of(found: Result<(), SchemaMismatch>) -> Self {
        let answers = || Check::new(CheckStatus::Ok, "it answers");
        let (database, status, detail) = match found {
            Ok(()) => (answers(), CheckStatus::Ok, "that of this version".into()),
            Err(SchemaMismatch::Version { found, expected, .. }) if found > expected => {
                let detail = format!("at {found}, newer than {expected} of this version");
                (answers(), CheckStatus::Warning, detail.into())
            }
            Err(SchemaMismatch::Version { found, expected, .. }) => {
                let detail = format!("at {found}, and this version needs {expected}: migrate");
                (answers(), CheckStatus::Failed, detail.into())
            }
            Err(SchemaMismatch::Missing) => {
                (answers(), CheckStatus::Failed, "there is none".into())
            }
            Err(SchemaMismatch::Ungranted(Ungranted { statements })) => {
                let detail = format!("not granted, migrate does it: {}", statements.join(" "));
                (answers(), CheckStatus::Failed, detail.into())
            }
            Err(SchemaMismatch::Store(error)) => {
                tracing::debug!(%error, "the database could not be looked at");
                let database = Check::new(CheckStatus::Failed, "it does not answer");
                (database, CheckStatus::Failed, Cow::from("it could not be looked at"))
            }
        };
        Self { database, schema: Check::new(status, detail) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::store::testing::database;
    use crate::tools::lease::since_boot;
    use crate::tools::sandbox::Level;
    use tokio_util::sync::CancellationToken;

    fn ok(detail: &'static str) -> Check {
        Check::new(CheckStatus::Ok, detail)
    }

    #[tokio::test]
    async fn what_stops_or_lies_still_is_not_ready_and_what_the_model_does_is_told() {
        let database = database().await;
        let mut health = Health {
            pool: database.pool(1).into(),
            draining: CancellationToken::new(),
            metrics: Arc::new(Metrics::new()),
            tells_figures: true,
            sandbox: Some(Level::Basic),
            worker: Some(LeaseClock::default()),
            last_look: LastLook::default(),
            tool_servers: Arc::default(),
        };
        health.metrics.model_circuit(Circuit::Open);
        let expected = Checks {
            accepting: ok("it takes requests"),
            database: ok("it answers"),
            schema: ok("that of this version"),
            worker: Some(ok("it renews its leases")),
            model: Some(Check::new(CheckStatus::Warning, "open")),
            sandbox: Some(ok("basic")),
            tool_servers: BTreeMap::new(),
        };
        let checks = Checks::of(&health).await;
        assert_eq!((checks.are_passed(), checks), (true, expected.clone()));

        let late = LeaseClock::default();
        late.renewed(since_boot().saturating_sub(Duration::from_secs(9)));
        health.worker = Some(late);
        let found = Check::new(CheckStatus::Failed, "its leases were not renewed in time");
        let expected_late = Checks { worker: Some(found), ..expected.clone() };
        let checks = Checks::of(&health).await;
        assert_eq!((checks.are_passed(), checks), (false, expected_late));

        health.worker = None;
        health.draining.cancel();
        let accepting = Check::new(CheckStatus::Failed, "it is stopping");
        let expected_draining = Checks { worker: None, accepting, ..expected };
        let checks = Checks::of(&health).await;
        assert_eq!((checks.are_passed(), checks), (false, expected_draining));
    }
}
