//! Measurement of workspace folders that no call has measured: those of sessions that were idle since
//! their tenant got a quota of files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::domain::ids::{SessionId, TenantId};
use crate::domain::quota::{QuotaLimits, QuotaResource};
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::quotas::{
    UnmeasuredFolders, list_limited_workspaces, list_unmeasured, set_workspace_size,
};
use crate::tools::workspace::folder_size;

/// The interval between measurements. The first one begins when the process starts.
const INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of sessions that are listed at once.
const BATCH: i64 = 500;
/// The pause after each batch: a pass over a million sessions takes minutes and is not noticed.
const PAUSE: Duration = Duration::from_millis(50);

/// The owner of the sessions of a pass; `None` for the sessions of all tenants.
type Owner = Option<TenantId>;

/// Measures folders at intervals, without end.
pub(in crate::worker) async fn measure_periodically(
    pool: Connections,
    workspaces: PathBuf,
    defaults: QuotaLimits,
) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let of_all = defaults.get(QuotaResource::WorkspaceBytes).is_some();
    let mut measured = BTreeSet::new();
    loop {
        ticks.tick().await;
        if let Err(error) = measure_new(&pool, &workspaces, of_all, &mut measured).await {
            tracing::warn!(%error, "workspaces not measured");
        }
    }
}

/// Makes a pass for each owner that has got a quota since the last one, and for no other: calls
/// measure the folders of all sessions that work after that.
async fn measure_new(
    pool: &Connections,
    workspaces: &Path,
    of_all: bool,
    measured: &mut BTreeSet<Owner>,
) -> Result<(), StoreError> {
    let owners: BTreeSet<Owner> = if of_all {
        BTreeSet::from([None])
    } else {
        let tenants = pool.with(async |conn| list_limited_workspaces(conn).await).await?;
        tenants.into_iter().map(Some).collect()
    };
    measured.retain(|owner| owners.contains(owner));
    for owner in owners {
        if !measured.contains(&owner) {
            measure(pool, workspaces, owner).await?;
            measured.insert(owner);
        }
    }
    Ok(())
}

/// Measures the folders on this machine. The others stay without a size, for the processes on their
/// machines.
async fn measure(pool: &Connections, workspaces: &Path, owner: Owner) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let range = UnmeasuredFolders { tenant: owner, after, limit: BATCH };
        let ids = pool.with(async |conn| list_unmeasured(conn, range).await).await?;
        let Some(last) = ids.last().copied() else { return Ok(()) };
        after = Some(last);
        for id in ids {
            if let Some(bytes) = size(workspaces, id).await {
                pool.with(async |conn| set_workspace_size(conn, id, bytes).await).await?;
            }
        }
        sleep(PAUSE).await;
    }
}

/// The size of a session's folder; none if it is not on this machine or cannot be read.
async fn size(workspaces: &Path, id: SessionId) -> Option<i64> {
    let folder = workspaces.join(id.to_string());
    let measure = move || folder.is_dir().then(|| folder_size(&folder)).transpose();
    let bytes = spawn_blocking(measure).await.ok()?.ok()??;
    i64::try_from(bytes).ok()
}
