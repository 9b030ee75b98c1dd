//! The quota of the files in workspaces: tools that write files fail when it is used up.
//!
//! A folder is measured before and after such a call, and only if its tenant has a quota. Files of
//! other sessions count as last measured, so sessions that write at the same time can exceed the
//! quota by one call each.

use std::time::Instant;

use tokio::task::spawn_blocking;

use super::execute::ToolRunner;
use super::ledger::ended_call;
use super::plan::{EndedCall, ToolRound};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::quota::{QuotaExceeded, QuotaResource};
use crate::domain::tool::ToolCall;
use crate::store::quotas::{count, set_workspace_size};
use crate::store::tenants::owner;
use crate::tools::FileChange;
use crate::tools::workspace::folder_size;
use crate::worker::run::stop_cause::StopCause;

/// The folder of a session whose tenant has a quota of files.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitedFolder {
    session_id: SessionId,
    tenant: TenantId,
    limit: i64,
}

impl ToolRunner<'_> {
    /// The folder of the session, if it belongs to the session and its size is limited.
    pub(super) async fn limited_folder(&self) -> Result<Option<LimitedFolder>, StopCause> {
        let (services, claim) = (self.run.services, &self.run.claim);
        let quotas = &services.quotas;
        let exist = |_| async { Ok(quotas.exist().await?) };
        if claim.workspace.is_some() || !self.run.retry(exist).await? {
            return Ok(None);
        }
        let session_id = claim.parent_session.unwrap_or(claim.session_id);
        let pool = &services.pool;
        let find = |_| pool.with(async |conn| Ok(owner(conn, session_id).await?));
        let Some(tenant) = self.run.retry(find).await? else { return Ok(None) };
        let limits = |_| async { Ok(quotas.limits(tenant).await?) };
        let limit = self.run.retry(limits).await?.get(QuotaResource::WorkspaceBytes);
        Ok(limit.map(|limit| LimitedFolder { session_id, tenant, limit }))
    }

    /// Measures the folder, and checks that files of this size may be added.
    pub(super) async fn check_folder(
        &self,
        folder: LimitedFolder,
        needed: i64,
    ) -> Result<Option<QuotaExceeded>, StopCause> {
        self.measure_folder(folder).await?;
        let LimitedFolder { tenant, limit, .. } = folder;
        let pool = &self.run.services.pool;
        let count = |_| {
            pool.with(async |conn| Ok(count(conn, tenant, QuotaResource::WorkspaceBytes).await?))
        };
        let used = self.run.retry(count).await?;
        Ok(QuotaExceeded::check(QuotaResource::WorkspaceBytes, used, needed, limit))
    }

    /// Ends a call that does not run, because the quota is used up.
    pub(super) async fn refuse_by_quota(
        &self,
        round: &mut ToolRound<'_>,
        position: usize,
        call: &ToolCall,
        exceeded: QuotaExceeded,
    ) {
        let context = self.context.of_call(&call.tool_use_id);
        let tools = &self.run.services.tools;
        let answer = tools.reported(&context, &call.name, Err(exceeded.to_model())).await;
        let ended = ended_call(position, call, answer, Instant::now());
        round.end_executed(EndedCall { is_execution: false, ..ended });
    }

    /// The bytes by which a change makes its file larger.
    pub(super) fn growth(&self, change: &FileChange) -> i64 {
        let size = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let before = self.context.workspace.find(&change.path).ok().flatten();
        size(change.content.len()) - size(before.map_or(0, |content| content.len()))
    }

    /// Measures the folder and records its size. A folder that cannot be read keeps its last size.
    pub(super) async fn measure_folder(&self, folder: LimitedFolder) -> Result<(), StopCause> {
        let session_id = folder.session_id;
        let path = self.context.workspace.root().to_owned();
        let measured = spawn_blocking(move || folder_size(&path)).await;
        let bytes = match measured.unwrap_or_else(|panicked| Err(std::io::Error::other(panicked))) {
            Ok(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            Err(error) => {
                tracing::warn!(session.id = %session_id, %error, "workspace not measured");
                return Ok(());
            }
        };
        let pool = &self.run.services.pool;
        let set =
            |_| pool.with(async |conn| Ok(set_workspace_size(conn, session_id, bytes).await?));
        self.run.retry(set).await
    }
}
