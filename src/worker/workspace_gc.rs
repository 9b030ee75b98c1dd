//! Garbage collection of workspace folders: of sessions that were deleted, or never created, by a
//! process that stopped before it could remove their folders.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::domain::ids::SessionId;
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::folders::{database_id, list_gone};
use crate::tools::workspace::{NoteRange, list_removal_notes};

/// The interval between collections. The first one begins when the process starts.
const INTERVAL: Duration = Duration::from_mins(10);
/// Minimum age of a removal note: the process that wrote a younger one may still be removing.
const MIN_AGE: Duration = Duration::from_hours(1);
/// Maximum number of removal notes of one collection. A deleted session and its forks share one.
const BATCH: usize = 100;

/// Collects garbage at intervals, without end.
pub(in crate::worker) async fn collect_periodically(pool: Connections, workspaces: PathBuf) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut after = None;
    loop {
        ticks.tick().await;
        match collect(&pool, &workspaces, NoteRange { age: MIN_AGE, after, limit: BATCH }).await {
            Ok(last) => after = last,
            Err(error) => tracing::warn!(%error, "workspaces of deleted sessions not collected"),
        }
    }
}

/// Removes the folders of one range of notes and returns the last note: a folder that cannot be
/// removed must not keep the others from being collected. Several processes can collect at once; one
/// of them removes a folder and the others do not find it.
async fn collect(
    pool: &Connections,
    workspaces: &Path,
    range: NoteRange,
) -> Result<Option<SessionId>, StoreError> {
    let database = pool.with(async |conn| database_id(conn).await).await?;
    let list = move |folder: &Path| list_removal_notes(folder, &database, range);
    let notes = on_disk(workspaces, list).await.unwrap_or_default();
    let last = notes.last().map(|note| note.root);
    for note in notes {
        let gone = pool.with(async |conn| list_gone(conn, &note.sessions).await).await?;
        on_disk(workspaces, move |folder| note.remove_all(folder, &gone)).await;
    }
    Ok(last)
}

/// Runs blocking disk work; none if it failed.
async fn on_disk<T: Send + 'static>(
    workspaces: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Option<T> {
    let folder = workspaces.to_owned();
    let done = spawn_blocking(move || work(&folder)).await;
    match done.unwrap_or_else(|panicked| Err(io::Error::other(panicked))) {
        Ok(done) => Some(done),
        Err(error) => {
            tracing::warn!(%error, "workspace of a deleted session could not be removed");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::database;
    use crate::tools::workspace::RemovalNote;
    use sqlx::PgConnection;
    use std::fs;

    #[tokio::test]
    async fn folders_of_sessions_that_the_database_does_not_have_are_removed() {
        let (database, home) = (database().await, tempfile::TempDir::new().unwrap());
        let pool = Connections::from(database.pool(1));
        let workspaces = home.path().to_owned();
        let kept = SessionId::new();
        let prepare = async |conn: &mut PgConnection| {
            sqlx::query(
                "INSERT INTO sessions (id, tenant_id, model, settings)
                 SELECT $1, id, 'm', '{}' FROM tenants",
            )
            .bind(kept.as_uuid())
            .execute(&mut *conn)
            .await?;
            database_id(conn).await
        };
        let here = pool.with(prepare).await.unwrap();

        let [gone, of_others, without_note] = [(); 3].map(|()| SessionId::new());
        let folder = |id: SessionId| workspaces.join(id.to_string());
        for id in [kept, gone, of_others, without_note] {
            fs::create_dir_all(folder(id).join("a")).unwrap();
        }
        let note = |database: &str, sessions: Vec<SessionId>| {
            let note = RemovalNote { root: sessions[0], database: database.to_owned(), sessions };
            note.write(&workspaces).unwrap();
        };
        note(&here, vec![gone, kept]);
        note("1/2", vec![of_others]);
        let left = || {
            let ids = [kept, gone, of_others, without_note];
            ids.map(|id| folder(id).exists())
        };
        let notes = || {
            let of = [&*here, "1/2"];
            of.map(|database| {
                let range = NoteRange { age: Duration::ZERO, after: None, limit: 10 };
                list_removal_notes(&workspaces, database, range).unwrap().len()
            })
        };
        collect(&pool, &workspaces, NoteRange { age: MIN_AGE, after: None, limit: BATCH })
            .await
            .unwrap();
        assert_eq!((left(), notes()), ([true; 4], [1, 1]), "the notes are too young");
        collect(&pool, &workspaces, NoteRange { age: Duration::ZERO, after: None, limit: BATCH })
            .await
            .unwrap();
        assert_eq!((left(), notes()), ([true, false, true, true], [0, 1]));
    }

    #[tokio::test]
    async fn a_collection_begins_where_the_one_before_ended() {
        let (database, home) = (database().await, tempfile::TempDir::new().unwrap());
        let pool = Connections::from(database.pool(1));
        let here = pool.with(async |conn| database_id(conn).await).await.unwrap();
        let mut ids: Vec<_> = (0..=BATCH).map(|_| SessionId::new()).collect();
        ids.sort_unstable();
        let folder = |id: &SessionId| home.path().join(id.to_string());
        for id in &ids {
            let note = RemovalNote { root: *id, database: here.clone(), sessions: vec![*id] };
            note.write(home.path()).unwrap();
            fs::create_dir(folder(id)).unwrap();
        }
        let age = Duration::ZERO;
        let collect_after =
            async |after| collect(&pool, home.path(), NoteRange { age, after, limit: BATCH }).await;
        let left = || ids.iter().filter(|id| folder(id).exists()).copied().collect::<Vec<_>>();
        assert_eq!(collect_after(Some(ids[0])).await.unwrap(), ids.last().copied());
        assert_eq!(left(), ids[..1]);
        assert_eq!(collect_after(ids.last().copied()).await.unwrap(), Some(ids[0]));
        assert_eq!(left(), []);
    }
}
