//! How long runs lay still after their worker had died, and whether one was taken from a worker
//! to whom nothing had happened.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff_sqlx::Timestamp as SqlTimestamp;

use crate::arena::{Arena, Deed, Entry};
use crate::cluster::NODES;

/// The most that a node may take that is started again.
const SAME_NODE: Duration = Duration::from_secs(2);
/// The most that another node may take.
const OTHER_NODE: Duration = Duration::from_secs(15);

/// One attempt of one run.
#[derive(Debug, sqlx::FromRow)]
struct Claim {
    run: String,
    attempt: i32,
    node: String,
    at: SqlTimestamp,
    has_waited: bool,
    begun: Option<SqlTimestamp>,
}

impl Claim {
    fn seat(&self) -> Option<usize> {
        NODES.iter().position(|node| *node == self.node)
    }

    fn at(&self) -> SystemTime {
        system(self.at.to_jiff())
    }

    /// When readers could see that the run went on.
    fn begun(&self) -> SystemTime {
        self.begun.map_or_else(|| self.at(), |begun| system(begun.to_jiff()))
    }
}

fn system(at: Timestamp) -> SystemTime {
    at.into()
}

impl Arena {
    pub(crate) async fn takeovers_were_in_time(&self) -> anyhow::Result<()> {
        let claims: Vec<Claim> = sqlx::query_as(
            "SELECT c.run_id::text AS run, c.attempt, c.node, c.at, c.has_waited,
                    (SELECT min(b.at) FROM crash.begins b
                     WHERE b.run_id = c.run_id AND b.attempt = c.attempt) AS begun
             FROM crash.claims c ORDER BY c.run_id, c.attempt",
        )
        .fetch_all(&self.pool)
        .await?;
        let book = self.book();
        for pair in claims.windows(2) {
            if let [before, after] = pair
                && before.run == after.run
                && !after.has_waited
            {
                self.judge(&book, before, after);
            }
        }
        Ok(())
    }

    fn judge(&self, book: &[Entry], before: &Claim, after: &Claim) {
        let concerns = |entry: &&Entry| {
            entry.deed != Deed::Ready
                && (entry.node.is_none() || entry.node == before.seat())
                // The book is written before the deed is done, the claim after it was made.
                && entry.at + Duration::from_secs(1) > before.at()
                && entry.at <= after.at()
        };
        let Some(fault) = book.iter().find(concerns) else {
            self.tally.false_takeovers.add(1);
            let (run, attempt) = (&after.run, after.attempt);
            self.red(&format!("a false takeover of {run} by {} (attempt {attempt})", after.node));
            return;
        };
        if fault.node.is_none() || fault.deed == Deed::Disconnected {
            return;
        }
        let lives = Lives { book, seat: after.seat(), until: after.begun() };
        let ready = lives.ready_since();
        if after.node == before.node {
            if fault.deed == Deed::Died {
                let time = since(after.begun(), ready);
                self.tally.same_node.add(time);
                self.in_time(after, time, SAME_NODE);
            }
            return;
        }
        // Who was not there at first can only be measured from its own beginning.
        let time = since(after.begun(), fault.at.max(ready));
        self.tally.other_node.add(time);
        self.in_time(after, time, OTHER_NODE);
    }

    fn in_time(&self, claim: &Claim, time: Duration, most: Duration) {
        if time > most {
            self.red(&format!("{} took {} over after {time:.1?}", claim.node, claim.run));
        }
    }
}

/// When a node was there.
struct Lives<'a> {
    book: &'a [Entry],
    seat: Option<usize>,
    until: SystemTime,
}

impl Lives<'_> {
    /// Since when the node lives that was there at the end. A run may be taken up before the test
    /// has read that the node is ready.
    fn ready_since(&self) -> SystemTime {
        let mine = || self.book.iter().filter(|entry| entry.node == self.seat);
        let died = mine().filter(|entry| entry.deed == Deed::Died && entry.at <= self.until);
        let died = died.map(|entry| entry.at).next_back();
        let ready = mine().filter(|entry| entry.deed == Deed::Ready && Some(entry.at) >= died);
        ready.map(|entry| entry.at).next().map_or(self.until, |ready| ready.min(self.until))
    }
}

fn since(later: SystemTime, earlier: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}
