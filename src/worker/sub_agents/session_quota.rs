//! The quota of sessions, to which the sessions of sub-agents count.

use std::time::Instant;

use super::SubAgents;
use super::start::SubAgentStart;
use crate::domain::quota::{QuotaExceeded, QuotaResource};
use crate::store::quotas::count;
use crate::store::tenants::owner;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::tool_round::ledger::ended_call;
use crate::worker::tool_round::plan::{EndedCall, ToolRound};

impl SubAgents<'_, '_> {
    /// The sub-agents that the quota allows; the calls of the others fail. The check holds no lock:
    /// runs that start sub-agents at the same moment can exceed the quota by those of one round each.
    pub(super) async fn within_quota<'a>(
        &self,
        round: &mut ToolRound<'_>,
        starts: Vec<SubAgentStart<'a>>,
    ) -> Result<Vec<SubAgentStart<'a>>, StopCause> {
        let Some(exceeded) = self.first_beyond(starts.len()).await? else { return Ok(starts) };
        let allowed = usize::try_from(exceeded.limit - exceeded.used).unwrap_or(0);
        let used = exceeded.used.max(exceeded.limit);
        let refusal = QuotaExceeded { needed: 1, used, ..exceeded }.to_string();
        let mut within = Vec::new();
        for (index, start) in starts.into_iter().enumerate() {
            if index < allowed {
                within.push(start);
                continue;
            }
            let context = self.context.of_call(&start.call.tool_use_id);
            let tools = &self.state.run.services.tools;
            let answer = tools.reported(&context, &start.call.name, Err(refusal.clone())).await;
            let ended = ended_call(start.position, start.call, answer, Instant::now());
            round.end_executed(EndedCall { is_execution: false, ..ended });
        }
        Ok(within)
    }

    /// The refusal of so many sessions; none if the quota allows all of them.
    async fn first_beyond(&self, starts: usize) -> Result<Option<QuotaExceeded>, StopCause> {
        let run = self.state.run;
        let (quotas, pool) = (&run.services.quotas, &run.services.pool);
        let exist = |_| async { Ok(quotas.exist().await?) };
        if starts == 0 || !run.retry(exist).await? {
            return Ok(None);
        }
        let session_id = run.session_id();
        let find = |_| pool.with(async |conn| Ok(owner(conn, session_id).await?));
        let Some(tenant) = run.retry(find).await? else { return Ok(None) };
        let limits = |_| async { Ok(quotas.limits(tenant).await?) };
        let Some(limit) = run.retry(limits).await?.get(QuotaResource::Sessions) else {
            return Ok(None);
        };
        let count =
            |_| pool.with(async |conn| Ok(count(conn, tenant, QuotaResource::Sessions).await?));
        let used = run.retry(count).await?;
        let needed = i64::try_from(starts).unwrap_or(i64::MAX);
        Ok(QuotaExceeded::check(QuotaResource::Sessions, used, needed, limit))
    }
}
