//! What the model was asked and paid for, against what is stored.

use std::collections::HashMap;

use simulator::RecordedRequest;

use crate::arena::Arena;
use crate::rebuild::{asked_by, asks_for_a_summary};

/// What is stored of a run.
#[derive(Debug, sqlx::FromRow)]
struct Stored {
    key: String,
    calls: i32,
    summaries: i32,
    /// Calls that may have been lost, and made again: one for each time that the run changed hands,
    /// and one that was cancelled in the middle.
    lost: i32,
}

impl Arena {
    /// A call that was lost is made again, and no other. Whose run had the past summed up, its
    /// request does not say: summaries are in the sum of all runs only.
    pub(crate) async fn model_was_paid_once(&self) -> anyhow::Result<()> {
        let (mut paid, mut summaries) = (HashMap::<String, i32>::new(), 0);
        let is_paid = |it: &&RecordedRequest| it.status == 200 && it.path == "/v1/messages";
        for request in self.simulator.requests().iter().filter(is_paid) {
            if asks_for_a_summary(&request.body) {
                summaries += 1;
            } else {
                *paid.entry(asked_by(&request.body)?).or_default() += 1;
            }
        }
        let runs = self.stored().await?;
        for run in &runs {
            let calls = paid.get(&run.key).copied().unwrap_or(0);
            self.compare(&run.key, calls, run.calls, run.lost);
        }
        let sum = |of: fn(&Stored) -> i32| runs.iter().map(of).sum::<i32>();
        let stored = sum(|run| run.calls + run.summaries);
        let all = paid.values().sum::<i32>() + summaries;
        self.compare("all runs", all, stored, sum(|run| run.lost));
        self.tally.model_calls.add(usize::try_from(all)?);
        self.tally.paid_twice.add(usize::try_from(all - stored).unwrap_or(0));
        Ok(())
    }

    fn compare(&self, what: &str, paid: i32, stored: i32, lost: i32) {
        if paid < stored || paid > stored + lost {
            self.red(&format!("{what}: {paid} calls paid, {stored} stored, {lost} lost at most"));
        }
    }

    async fn stored(&self) -> anyhow::Result<Vec<Stored>> {
        // A sub-agent's message has no key, and is unlike all others.
        let runs = "SELECT coalesce(idempotency_key, input #>> '{0,text}') AS key, model_requests - summaries AS calls, summaries,
                           attempt - 1 + (status = 'cancelled')::int AS lost
                    FROM runs CROSS JOIN LATERAL (
                        SELECT count(*)::int AS summaries FROM requests q
                        WHERE q.run_id = runs.id AND q.stop_reason IS NOT NULL
                          AND q.form ->> 'summary' = 'true') q";
        Ok(sqlx::query_as(runs).fetch_all(&self.pool).await?)
    }

    /// What a fault takes from a summary, it does not take for good.
    pub(crate) async fn long_sessions_are_summed_up(&self) -> anyhow::Result<()> {
        let whole = "SELECT DISTINCT session_id::text FROM runs r
                     WHERE idempotency_key LIKE 'long.%' AND NOT EXISTS (
                         SELECT FROM compactions c WHERE c.session_id = r.session_id)";
        let whole: Vec<String> = sqlx::query_scalar(whole).fetch_all(&self.pool).await?;
        for session in whole {
            self.red(&format!("the session {session} was never summed up"));
        }
        Ok(())
    }
}
