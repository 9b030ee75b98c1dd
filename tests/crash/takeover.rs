//! Checks how long runs had no worker after a fault, and that no run was taken from a healthy
//! worker.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff_sqlx::Timestamp as SqlTimestamp;

use crate::cluster::NODES;
use crate::testbed::{NodeEvent, RecordedEvent, Testbed};

/// The limit for a takeover by the same node, after its restart.
const SAME_NODE: Duration = Duration::from_secs(2);
/// The limit for a takeover by the other node.
const OTHER_NODE: Duration = Duration::from_secs(15);

/// One attempt of one run.
#[derive(Debug, sqlx::FromRow)]
struct Claim {
    run: String,
    attempt: i32,
    node: String,
    at: SqlTimestamp,
    has_waited: bool,
    is_suspect: bool,
    started: Option<SqlTimestamp>,
}

impl Claim {
    fn node_index(&self) -> Option<usize> {
        NODES.iter().position(|node| *node == self.node)
    }

    fn at(&self) -> SystemTime {
        system(self.at.to_jiff())
    }

    /// The time at which readers could see that the run continued.
    fn started(&self) -> SystemTime {
        self.started.map_or_else(|| self.at(), |started| system(started.to_jiff()))
    }
}

fn system(at: Timestamp) -> SystemTime {
    at.into()
}

impl Testbed {
    pub(crate) async fn takeovers_were_in_time(&self) -> anyhow::Result<()> {
        let claims: Vec<Claim> = sqlx::query_as(
            "SELECT c.run_id::text AS run, c.attempt, c.node, c.at, c.has_waited, c.is_suspect,
                    (SELECT min(b.at) FROM crash.starts b
                     WHERE b.run_id = c.run_id AND b.attempt = c.attempt) AS started
             FROM crash.claims c ORDER BY c.run_id, c.attempt",
        )
        .fetch_all(&self.pool)
        .await?;
        let events = self.node_events();
        for pair in claims.windows(2) {
            if let [before, after] = pair
                && before.run == after.run
                && !after.has_waited
            {
                self.check_takeover(&events, before, after);
            }
        }
        Ok(())
    }

    fn check_takeover(&self, events: &[RecordedEvent], before: &Claim, after: &Claim) {
        let concerns = |event: &&RecordedEvent| {
            event.kind != NodeEvent::Ready
                && (event.node.is_none() || event.node == before.node_index())
                // An event is recorded before the fault is injected, a claim after it is made.
                && event.at + Duration::from_secs(1) > before.at()
                && event.at <= after.at()
        };
        let Some(fault) = events.iter().find(concerns) else {
            self.tally.false_takeovers.add(1);
            let (run, attempt) = (&after.run, after.attempt);
            self.violation(&format!(
                "a false takeover of {run} by {} (attempt {attempt})",
                after.node
            ));
            return;
        };
        if fault.node.is_none() || fault.kind == NodeEvent::Disconnected {
            return;
        }
        let lifetime = NodeLifetime { events, index: after.node_index(), until: after.started() };
        let ready = lifetime.ready_since();
        if after.node == before.node {
            if fault.kind == NodeEvent::Died {
                let time = since(after.started(), ready);
                self.tally.same_node.add(time);
                self.check_time(after, time, SAME_NODE);
            }
            return;
        }
        // A node that did not run at the time of the fault is measured from its start.
        let time = since(after.started(), fault.at.max(ready));
        self.tally.other_node.add(time);
        self.check_time(after, time, OTHER_NODE);
    }

    fn check_time(&self, claim: &Claim, time: Duration, limit: Duration) {
        // Suspects are claimed after a pause, and not all at once.
        if time > limit && !claim.is_suspect {
            self.violation(&format!("{} took over {} after {time:.1?}", claim.node, claim.run));
        }
    }
}

/// The events of a node before a takeover.
struct NodeLifetime<'a> {
    events: &'a [RecordedEvent],
    index: Option<usize>,
    until: SystemTime,
}

impl NodeLifetime<'_> {
    /// Returns since when the node was ready at the takeover. It may claim a run before the test
    /// has read that it is ready.
    fn ready_since(&self) -> SystemTime {
        let mine = || self.events.iter().filter(|event| event.node == self.index);
        let died = mine().filter(|event| event.kind == NodeEvent::Died && event.at <= self.until);
        let died = died.map(|event| event.at).next_back();
        let ready = mine().filter(|event| event.kind == NodeEvent::Ready && Some(event.at) >= died);
        ready.map(|event| event.at).next().map_or(self.until, |ready| ready.min(self.until))
    }
}

fn since(later: SystemTime, earlier: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}
