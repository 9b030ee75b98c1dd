//! The parts of the process that runs use.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::bus::Bus;
use crate::domain::prompt_cache::CacheTtl;
use crate::metrics::{Metrics, RequestOutcome};
use crate::model::{ModelServer, ModelServers};
use crate::store::connections::Connections;
use crate::store::group_commit::GroupCommit;
use crate::store::quotas::Quotas;
use crate::store::step::EncodedStep;
use crate::tools::Registry;
use crate::tools::lease::LeaseClock;
use crate::tools::policy::{Evaluator, OperatorPolicy};
use crate::worker::claim::lost_leases::LostLeases;
use crate::worker::transcript::TranscriptCache;

/// The parts of the process that all runs share.
#[derive(Debug)]
pub(in crate::worker) struct Services {
    pub(in crate::worker) pool: Connections,
    pub(in crate::worker) group_commit: GroupCommit<EncodedStep>,
    pub(in crate::worker) bus: Arc<Bus>,
    pub(in crate::worker) models: ModelServers,
    pub(in crate::worker) tools: Arc<Registry>,
    pub(in crate::worker) policy: Arc<OperatorPolicy>,
    pub(in crate::worker) evaluator: Option<Evaluator>,
    /// The parent folder of the session workspaces, unless the operator set one for all sessions.
    pub(in crate::worker) workspaces: PathBuf,
    /// The lifetime of the cached prefix that requests ask for, if any.
    pub(in crate::worker) prompt_cache: Option<CacheTtl>,
    pub(in crate::worker) metrics: Arc<Metrics>,
    pub(in crate::worker) lost_leases: LostLeases,
    /// The time of the last renewal of leases that succeeded. Each run has a clock of its own.
    pub(in crate::worker) lease: LeaseClock,
    pub(in crate::worker) transcripts: TranscriptCache,
    pub(in crate::worker) quotas: Quotas,
    /// The permits of commands, which are processes: there can be fewer of them than runs.
    pub(in crate::worker) commands: Semaphore,
}

impl Services {
    /// Counts a request to the model, and reports the circuit breakers after it.
    pub(in crate::worker) fn count_request(&self, server: &ModelServer, outcome: RequestOutcome) {
        self.report_circuit(server, Instant::now());
        self.metrics.model_request(server.label(), outcome);
    }

    /// Reports the state of the circuit breakers of the models.
    pub(in crate::worker) fn report_circuit(&self, server: &ModelServer, now: Instant) {
        self.metrics.model_circuit(self.models.circuit(now));
        self.metrics.provider_circuit(server.label(), server.circuit(now));
    }
}
