//! Titles of sessions: after the first completed run of a session without a title, the model is asked
//! for one.
//!
//! The request is no part of the run, which has settled: it holds neither its slot nor its lease, and
//! nothing waits for it. The worker that has settled the run is the only one that asks, so there is one
//! request at most. If the process ends before its reply is stored, the session has no title; what the
//! request used is then not counted, as for every request during which a process dies.

mod request;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::domain::claim::Claimed;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::message::Content;
use crate::domain::model_settings::ModelSettings;
use crate::domain::session::Settings;
use crate::domain::title::TitleRequest;
use crate::domain::trace::Trace;
use crate::domain::usage::Usage;
use crate::store::StoreError;
use crate::store::retry::{in_time, retry_while_unavailable};
use crate::store::titles::{Recorded, TitleRecord, find_untitled, record};
use crate::worker::run::signals::ShutdownSignals;
use crate::worker::services::Services;
use request::{Ended, send};

/// Requests for titles that a process sends at once.
const AT_ONCE: usize = 32;
/// Sessions that wait for a title. Further ones get none, so that their number is bounded.
const MAX_WAITING: usize = 4096;
/// The time that a request may take.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// The requests for titles of a process.
#[derive(Debug)]
pub(in crate::worker) struct Titles {
    tasks: TaskTracker,
    permits: Arc<Semaphore>,
}

/// A run after which a session may need a title.
#[derive(Debug)]
pub(in crate::worker) struct TitleTask {
    session_id: SessionId,
    run_id: RunId,
    attempt: i32,
    settings: Settings,
    model_settings: Option<Box<ModelSettings>>,
    trace: Option<Trace>,
}

impl TitleTask {
    /// The task for after this run; none if its session does not want a title, or has a budget of its
    /// own, which its next run may be spending.
    pub(in crate::worker) fn of(run: &Claimed) -> Option<Box<Self>> {
        let settings = &run.settings;
        let wants_title = settings.generate_title
            && run.parent_session.is_none()
            && settings.budget.is_open()
            && !run.is_budgeted;
        wants_title.then(|| {
            Box::new(Self {
                session_id: run.session_id,
                run_id: run.fence.run_id,
                attempt: run.fence.attempt,
                settings: settings.clone(),
                model_settings: run.model_settings.clone(),
                trace: run.options.trace,
            })
        })
    }
}

impl Default for Titles {
    fn default() -> Self {
        Self { tasks: TaskTracker::new(), permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Titles {
    /// Executes a task, unless too many wait.
    pub(in crate::worker) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if self.tasks.len() < MAX_WAITING {
            self.tasks.spawn(task);
        }
    }

    /// Makes a title for the session of a task if it needs one, unless the worker is shutting down.
    pub(in crate::worker) async fn make(
        &self,
        services: &Services,
        task: &TitleTask,
        shutdown: &ShutdownSignals,
    ) {
        let waiting = shutdown.drain.run_until_cancelled(self.permits.acquire());
        let Some(Ok(_permit)) = waiting.await else { return };
        let found = services
            .pool
            .with(async |conn| find_untitled(conn, task.session_id, task.run_id).await);
        let untitled = match in_time(found).await {
            Ok(Some(untitled)) => untitled,
            Ok(None) => return,
            Err(error) => return task.failed(&error),
        };
        let question = Content::parse(untitled.question).and_then(|text| text.joined_text());
        let question = question.unwrap_or_default();
        let Some(request) = TitleRequest::of(&question, &untitled.answer) else { return };
        let Some(ended) = send(services, task, request, &shutdown.drain).await else { return };
        task.store(services, &ended, shutdown).await;
    }

    /// Waits for the tasks of a worker that executes no more runs.
    pub(in crate::worker) async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl TitleTask {
    /// Stores the request, its usage and the title. A repeated try stores nothing a second time.
    async fn store(&self, services: &Services, ended: &Ended, shutdown: &ShutdownSignals) {
        let new = TitleRecord {
            session_id: self.session_id,
            run_id: self.run_id,
            attempt: self.attempt,
            request: &ended.record,
            title: ended.title.as_deref(),
        };
        let store = |_| services.pool.with(async |conn| record(conn, &new).await);
        let stored: Result<Recorded, StoreError> =
            retry_while_unavailable(shutdown.release_now.cancelled(), store).await;
        match stored {
            Ok(Recorded::Stored(frames)) => services.bus.publish(self.session_id, frames),
            Ok(Recorded::Repeated) => {}
            Ok(Recorded::Gone) => self.lost(ended.record.usage),
            Err(error) => {
                self.failed(&error);
                self.lost(ended.record.usage);
            }
        }
    }

    fn failed(&self, error: &StoreError) {
        tracing::warn!(run.id = %self.run_id, %error, "title not made");
    }

    fn lost(&self, usage: Usage) {
        if usage != Usage::default() {
            tracing::warn!(
                run.id = %self.run_id,
                usage.prompt_tokens = usage.prompt(),
                usage.output_tokens = usage.output_tokens,
                "usage of a request for a title is lost"
            );
        }
    }
}
