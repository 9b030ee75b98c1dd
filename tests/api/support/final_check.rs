//! The check of a service and its database at the end of a test.

use std::mem;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use super::machine::HUNG;
use super::{TestApp, TestDatabase, kept_output, replies};

/// The state in which a test leaves its service.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The model refused no request, each request was a byte prefix of the next, no history was
    /// repaired, and the invariants of the database hold. `invariants.sql` and the service's own
    /// verification check the database independently of each other.
    Sound,
    /// As `Sound`, but the model refused exactly these requests, and a request need not continue the
    /// previous one.
    Refused(Vec<String>),
    /// The service repaired histories, which the test had corrupted: this often in each way. The
    /// model refused no request.
    Repaired(Vec<(String, u64)>),
    /// Nothing is checked.
    Unchecked,
}

impl TestApp {
    /// Checks the service and stops it, for a test that continues after that.
    pub(crate) async fn stop(mut self) {
        let ending = mem::replace(&mut self.ending, Ending::Unchecked);
        self.check(&ending).await;
        self.stop_service().await;
    }

    /// Stops the service without the check at the end of a test.
    pub(crate) async fn stop_unchecked(mut self) {
        self.ending = Ending::Unchecked;
        self.stop_service().await;
    }

    /// Ends a test in which the model refuses exactly these requests, and in which a request need
    /// not continue the previous one.
    pub(crate) fn end_refused(mut self, refusals: &[&str]) {
        self.ending = Ending::Refused(refusals.iter().copied().map(str::to_owned).collect());
    }

    /// Ends a test in which the service repairs corrupted histories, exactly in these ways.
    pub(crate) fn end_repaired(mut self, kinds: &[(&str, u64)]) {
        let mut kinds: Vec<(String, u64)> =
            kinds.iter().map(|(kind, times)| ((*kind).to_owned(), *times)).collect();
        kinds.sort();
        self.ending = Ending::Repaired(kinds);
    }

    /// The invariants that the database violates, each with its location.
    pub(crate) async fn broken_invariants(&self) -> Vec<(String, String)> {
        broken_invariants(&self.database).await
    }

    async fn check(&self, ending: &Ending) {
        if !matches!(ending, Ending::Unchecked) {
            self.wait_for_runs().await;
        }
        let refusals = self.simulator.refusals();
        match ending {
            Ending::Unchecked => {}
            Ending::Sound => {
                assert_eq!(refusals, Vec::<String>::new(), "requests that the model refused");
                self.upstream().assert_prefixes();
                self.assert_sound().await;
            }
            Ending::Refused(expected) => {
                assert_eq!(&refusals, expected, "requests that the model refused");
                self.assert_sound().await;
            }
            Ending::Repaired(kinds) => {
                assert_eq!(refusals, Vec::<String>::new(), "requests that the model refused");
                assert_eq!(&self.repairs().await, kinds, "repaired histories");
            }
        }
    }

    /// Waits until the runs that the test has left have settled, or do not settle.
    async fn wait_for_runs(&self) {
        let pool = self.database.pool(1);
        let query = "SELECT EXISTS (SELECT FROM runs WHERE status IN ('queued', 'running'))";
        let deadline = Instant::now() + HUNG;
        while sqlx::query_scalar::<_, bool>(query).fetch_one(&pool).await.unwrap() {
            if Instant::now() > deadline {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Checks that the service repaired no history, and that the invariants of the database hold.
    async fn assert_sound(&self) {
        assert_eq!(self.repairs().await, [], "repaired histories");
        let broken = self.broken_invariants().await;
        assert_eq!(broken, Vec::<(String, String)>::new(), "violated invariants");
        assert_eq!(self.findings().await, Vec::<String>::new(), "findings of the verification");
    }

    /// The repairs that the service has counted, by kind.
    async fn repairs(&self) -> Vec<(String, u64)> {
        let text = self.get("/metrics").send().await.unwrap().text().await.unwrap();
        kept_output::keep_response(&text);
        repairs(&text)
    }

    async fn stop_service(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            task.await.unwrap().unwrap();
        }
    }
}

impl Drop for TestApp {
    /// Checks the service and stops it, unless the test has stopped it or has failed.
    fn drop(&mut self) {
        if self.task.is_none() {
            return;
        }
        if thread::panicking() {
            self.stop.cancel();
            return;
        }
        let runtime = Handle::current();
        let is_blockable = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        assert!(
            is_blockable,
            "a test with a service needs #[tokio::test(flavor = \"multi_thread\")]"
        );
        let ending = mem::replace(&mut self.ending, Ending::Unchecked);
        // On a thread of its own: `block_on` within `block_on` would lose wake-ups of the outer one.
        let checked = block_in_place(|| {
            thread::scope(|scope| {
                let check = || {
                    runtime.block_on(async {
                        self.check(&ending).await;
                        self.stop_service().await;
                    });
                };
                scope.spawn(check).join()
            })
        });
        if let Err(panic) = checked {
            resume_unwind(panic);
        }
    }
}

/// The invariants that a database violates, each with its location.
pub(crate) async fn broken_invariants(database: &TestDatabase) -> Vec<(String, String)> {
    let pool = database.pool(1);
    sqlx::query_as(include_str!("../../support/invariants.sql")).fetch_all(&pool).await.unwrap()
}

/// The repairs that a service has counted, by kind, read from the text of its metrics.
pub(crate) fn repairs(metrics: &str) -> Vec<(String, u64)> {
    let repairs = metrics.lines().filter_map(|line| {
        let line = line.strip_prefix(r#"twostep_history_repairs_total{kind=""#)?;
        let (kind, times) = line.split_once(r#""} "#)?;
        Some((kind.to_owned(), times.parse().unwrap()))
    });
    let mut repairs: Vec<(String, u64)> = repairs.collect();
    assert!(!repairs.is_empty(), "{metrics}");
    repairs.retain(|(_, times)| *times > 0);
    repairs.sort();
    repairs
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "violated invariants")]
async fn a_test_that_leaves_a_violated_invariant_fails() {
    let app = TestApp::start(replies(&[])).await;
    app.session().await;
    let corruption = sqlx::query("UPDATE sessions SET queued = 1");
    corruption.execute(&app.database.pool(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_stopped_without_the_check_may_leave_a_violated_invariant() {
    let app = TestApp::start(replies(&[])).await;
    app.session().await;
    let corruption = sqlx::query("UPDATE sessions SET queued = 1");
    corruption.execute(&app.database.pool(1)).await.unwrap();
    assert_eq!(app.broken_invariants().await.len(), 1);
    app.stop_unchecked().await;
}
