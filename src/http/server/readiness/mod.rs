//! The checks of `/readyz`.

mod check;
mod database;
mod folder;
mod health;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::domain::circuit::Circuit;
use crate::domain::tool_server::ToolServerReport;
use crate::tools::lease::LeaseClock;
use check::{Check, CheckStatus};
use database::DatabaseChecks;
pub use database::{DatabaseProbe, ProbedPools};
pub use folder::FolderProbe;
pub use health::Health;

/// The readiness checks by name. Checks of parts that the process does not have are absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Checks {
    /// The process accepts requests; it fails when the process is stopping.
    accepting: Check,
    /// The database is reachable, grants the connections that the process needs, and can be written.
    database: Check,
    /// This version can work with the database schema. A newer schema is a warning if it also serves
    /// this version.
    schema: Check,
    /// The worker of this process renews its leases.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<Check>,
    /// Files can be written to the folder of the workspaces. For a shared workspace a failure is a
    /// warning, because it may be read-only on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    workspaces: Option<Check>,
    /// The state of the circuit breaker of the model: `closed`, `half_open` or `open`. Runs wait
    /// while it is not closed, which is a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Check>,
    /// The sandbox level of the Bash tool: `full` or `basic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<Check>,
    /// The tool servers, each as `mcp:` and its name. A tool server that is not connected is a
    /// warning: only its own calls fail.
    #[serde(flatten)]
    tool_servers: BTreeMap<String, Check>,
}

impl Checks {
    /// Runs all checks.
    pub(in crate::http) async fn run(health: &Health) -> Self {
        let workspaces = async { Some(health.workspaces.as_ref()?.check().await) };
        let (checks, workspaces) = tokio::join!(health.database.check(), workspaces);
        let DatabaseChecks { database, schema } = checks;
        let is_draining = health.draining.is_cancelled();
        Self {
            accepting: Check::passed(!is_draining, "accepting requests", "stopping"),
            database,
            schema,
            worker: health.worker.as_ref().map(worker),
            workspaces,
            model: health.metrics.circuit().map(model),
            sandbox: health.sandbox.map(|level| Check::new(CheckStatus::Ok, level.as_str())),
            tool_servers: health.tool_servers.reports().iter().map(tool_server).collect(),
        }
    }

    /// Reports whether no check failed. Tool servers do not count: the process serves without them.
    pub(in crate::http) fn are_passed(&self) -> bool {
        let Self { accepting, database, schema, worker, workspaces, model, sandbox, .. } = self;
        let optional = [worker, workspaces, model, sandbox].into_iter().flatten();
        let mut all = [accepting, database, schema].into_iter().chain(optional);
        all.all(|check| check.status != CheckStatus::Failed)
    }
}

fn worker(lease: &LeaseClock) -> Check {
    Check::passed(lease.is_fresh(), "leases are renewed", "leases were not renewed in time")
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
            Check::new(CheckStatus::Warning, "calls fail; the circuit breaker is open")
        }
        (false, _) => Check::new(CheckStatus::Warning, "not connected"),
    };
    (format!("mcp:{}", report.name), check)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::domain::claim::since_boot;
    use crate::http::auth::MetricsAccess;
    use crate::metrics::Metrics;
    use crate::store::connections::Connections;
    use crate::store::testing::database;
    use sandbox::Level;
    use tokio_util::sync::CancellationToken;

    fn ok(detail: &'static str) -> Check {
        Check::new(CheckStatus::Ok, detail)
    }

    #[tokio::test]
    async fn a_draining_process_and_a_late_lease_are_not_ready_and_an_open_circuit_is_a_warning() {
        let database = database().await;
        let admission = Connections::from(database.pool(1));
        let pools = ProbedPools { admission: admission.clone(), api: None, worker: None };
        let mut health = Health {
            pool: admission,
            draining: CancellationToken::new(),
            metrics: Arc::new(Metrics::new()),
            metrics_access: MetricsAccess::Open,
            serves_metrics: true,
            sandbox: Some(Level::Basic),
            worker: Some(LeaseClock::default()),
            workspaces: None,
            database: DatabaseProbe::new(pools),
            tool_servers: Arc::default(),
        };
        health.metrics.model_circuit(Circuit::Open);
        let expected = Checks {
            accepting: ok("accepting requests"),
            database: ok("reachable"),
            schema: ok("matches this version"),
            worker: Some(ok("leases are renewed")),
            workspaces: None,
            model: Some(Check::new(CheckStatus::Warning, "open")),
            sandbox: Some(ok("basic")),
            tool_servers: BTreeMap::new(),
        };
        let checks = Checks::run(&health).await;
        assert_eq!((checks.are_passed(), checks), (true, expected.clone()));

        let late = LeaseClock::claimed(since_boot().saturating_sub(Duration::from_secs(9)));
        health.worker = Some(late);
        let found = Check::new(CheckStatus::Failed, "leases were not renewed in time");
        let expected_late = Checks { worker: Some(found), ..expected.clone() };
        let checks = Checks::run(&health).await;
        assert_eq!((checks.are_passed(), checks), (false, expected_late));

        health.worker = None;
        health.draining.cancel();
        let accepting = Check::new(CheckStatus::Failed, "stopping");
        let expected_draining = Checks { worker: None, accepting, ..expected };
        let checks = Checks::run(&health).await;
        assert_eq!((checks.are_passed(), checks), (false, expected_draining));
    }
}
