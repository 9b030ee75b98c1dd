//! Compares the requests that the model answered with the stored requests.

use std::collections::HashMap;

use simulator::RecordedRequest;

use crate::rebuild::{asks_for_a_summary, user_text};
use crate::testbed::{Testbed, locked};

/// The stored requests of a run.
#[derive(Debug, sqlx::FromRow)]
struct Stored {
    key: String,
    calls: i32,
    summaries: i32,
    /// Requests whose replies may have been lost: one for each takeover of the run, one if it was
    /// cancelled, and one for each try to post its message that was not answered.
    lost: i32,
}

impl Testbed {
    /// Only a request whose reply was lost is repeated. A request for a summary does not name its
    /// run, so summaries are compared only in the sum over all runs.
    pub(crate) async fn model_calls_match_the_database(&self) -> anyhow::Result<()> {
        let (mut answered, mut summaries) = (HashMap::<String, i32>::new(), 0);
        let is_answered = |it: &&RecordedRequest| it.status == 200 && it.path == "/v1/messages";
        for request in self.simulator.requests().iter().filter(is_answered) {
            if asks_for_a_summary(&request.body) {
                summaries += 1;
            } else {
                *answered.entry(user_text(&request.body)?).or_default() += 1;
            }
        }
        let mut runs = self.stored().await?;
        // The model may have been asked while a message was being accepted that was not.
        let unanswered = locked(&self.unanswered).clone();
        for run in &mut runs {
            run.lost += unanswered.get(&run.key).copied().unwrap_or(0);
        }
        for run in &runs {
            let calls = answered.get(&run.key).copied().unwrap_or(0);
            self.compare(&run.key, calls, run.calls, run.lost);
        }
        let sum = |of: fn(&Stored) -> i32| runs.iter().map(of).sum::<i32>();
        let stored = sum(|run| run.calls + run.summaries);
        let all = answered.values().sum::<i32>() + summaries;
        self.compare("all runs", all, stored, sum(|run| run.lost));
        self.tally.model_calls.add(usize::try_from(all)?);
        self.tally.repeated_model_calls.add(usize::try_from(all - stored).unwrap_or(0));
        Ok(())
    }

    fn compare(&self, what: &str, answered: i32, stored: i32, lost: i32) {
        if answered < stored || answered > stored + lost {
            self.violation(&format!(
                "{what}: {answered} requests answered, {stored} stored, at most {lost} lost"
            ));
        }
    }

    async fn stored(&self) -> anyhow::Result<Vec<Stored>> {
        // The message of a sub-agent has no key, but its text is unique.
        let runs = "SELECT coalesce(idempotency_key, input #>> '{0,text}') AS key, model_requests - summaries AS calls, summaries,
                           attempt - 1 + (status = 'cancelled')::int AS lost
                    FROM runs CROSS JOIN LATERAL (
                        SELECT count(*)::int AS summaries FROM requests q
                        WHERE q.run_id = runs.id AND q.stop_reason IS NOT NULL
                          AND q.form ->> 'summary' = 'true') q";
        Ok(sqlx::query_as(runs).fetch_all(&self.pool).await?)
    }

    /// A fault during a compaction only delays it.
    pub(crate) async fn long_sessions_are_compacted(&self) -> anyhow::Result<()> {
        let uncompacted = "SELECT DISTINCT session_id::text FROM runs r
                     WHERE idempotency_key LIKE 'long.%' AND NOT EXISTS (
                         SELECT FROM compactions c WHERE c.session_id = r.session_id)";
        let uncompacted: Vec<String> =
            sqlx::query_scalar(uncompacted).fetch_all(&self.pool).await?;
        for session in uncompacted {
            self.violation(&format!("the session {session} was never compacted"));
        }
        Ok(())
    }
}
