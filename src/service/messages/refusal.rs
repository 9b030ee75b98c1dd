//! The reason why a session did not accept a message.

use sqlx::PgConnection;

use super::message_post::MessagePost;
use crate::domain::ids::RunId;
use crate::domain::run_options::OnBusy;
use crate::domain::run_status::RunStatus;
use crate::service::admission::Overload;
use crate::service::error::Error;
use crate::service::lookup::{find_run, newest_event};
use crate::service::versions::check_version;
use crate::store::accept::MAX_QUEUED;
use crate::store::runs::find_busy;
use crate::store::sessions::is_archived;

impl MessagePost<'_> {
    /// The refusal of a message that neither started nor was queued.
    pub(super) async fn refusal(
        &self,
        overload: Option<Overload>,
        versions: Option<&[i64]>,
    ) -> Result<Error, Error> {
        let (tenant, session_id) = (self.tenant, self.session_id);
        let newest = newest_event(self.service, tenant, session_id).await?;
        if let Err(mismatch) = check_version(versions, newest) {
            return Ok(mismatch);
        }
        let read = async |conn: &mut PgConnection| is_archived(conn, tenant, session_id).await;
        if self.service.pool.with(tenant, read).await? == Some(true) {
            return Ok(Error::SessionArchived);
        }
        if self.on_busy() == OnBusy::Reject {
            let find = async |conn: &mut PgConnection| find_busy(conn, tenant, session_id).await;
            let Some(active_run_id) = self.service.pool.with(tenant, find).await? else {
                return Ok(Error::internal("a busy session without a run"));
            };
            return self.busy(active_run_id).await;
        }
        Ok(overload.map_or(Error::QueueFull(MAX_QUEUED), Error::Overloaded))
    }

    async fn busy(&self, active_run_id: RunId) -> Result<Error, Error> {
        let run = find_run(self.service, self.tenant, self.session_id, active_run_id).await?;
        Ok(match run.status {
            RunStatus::RequiresAction if !run.is_resumable() => {
                Error::ActionRequired { active_run_id }
            }
            RunStatus::RequiresAction
            | RunStatus::Queued
            | RunStatus::Running
            | RunStatus::Completed
            | RunStatus::Failed
            | RunStatus::Cancelled => Error::SessionBusy { active_run_id },
        })
    }
}
