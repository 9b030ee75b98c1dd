//! Folders of sessions that nobody has any more: of those that were deleted, or never made, by a
//! process that died before it could remove them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::domain::ids::SessionId;
use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::folders::{database_id, list_gone};
use crate::tools::workspace::list_leaving;

/// How often notes are looked at, the first time when the process starts.
const LOOK_EVERY: Duration = Duration::from_mins(10);
/// Who wrote a note that is younger may still be at work.
const OLD_AFTER: Duration = Duration::from_hours(1);
/// Notes that are looked at in one go. A tree of sessions that is deleted has one.
const AT_A_TIME: usize = 100;

/// Removes what is left again and again.
pub(in crate::worker) async fn clear_away(pool: Connections, workspaces: PathBuf) {
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut after = None;
    loop {
        look.tick().await;
        match clear_once(&pool, &workspaces, (OLD_AFTER, after)).await {
            Ok(last) => after = last,
            Err(error) => {
                tracing::warn!(%error, "it is not known what deleted sessions have left");
            }
        }
    }
}

/// Looks once at notes that are older than this, those behind this one first, and says which was the
/// last: what cannot be removed must not keep the rest from being looked at. Safe in many processes
/// at a time: what one of them has removed, the others do not find.
async fn clear_once(
    pool: &Connections,
    workspaces: &Path,
    (age, after): (Duration, Option<SessionId>),
) -> Result<Option<SessionId>, StoreError> {
    let mut conn = pool.acquire().await?;
    let database = database_id(&mut conn).await?;
    conn.give_back();
    let list = move |folder: &Path| list_leaving(folder, &database, age, (after, AT_A_TIME));
    let notes = aside(workspaces, list).await.unwrap_or_default();
    let last = notes.last().map(|leaving| leaving.root);
    for leaving in notes {
        let mut conn = pool.acquire().await?;
        let gone = list_gone(&mut conn, &leaving.sessions).await?;
        conn.give_back();
        aside(workspaces, move |folder| leaving.end(folder, &gone)).await;
    }
    Ok(last)
}

/// Works on the disk; none if that failed.
async fn aside<T: Send + 'static>(
    workspaces: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Option<T> {
    let folder = workspaces.to_owned();
    let done = spawn_blocking(move || work(&folder)).await;
    match done.unwrap_or_else(|panicked| Err(io::Error::other(panicked))) {
        Ok(done) => Some(done),
        Err(error) => {
            tracing::warn!(%error, "folders of deleted sessions cannot be removed");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::database;
    use crate::tools::workspace::Leaving;
    use std::fs;

    #[tokio::test]
    async fn folders_go_whose_sessions_this_database_does_not_have() {
        let (database, home) = (database().await, tempfile::TempDir::new().unwrap());
        let pool = Connections::from(database.pool(1));
        let workspaces = home.path().to_owned();
        let mut conn = pool.acquire().await.unwrap();
        let here = database_id(&mut conn).await.unwrap();
        let kept = SessionId::new();
        sqlx::query(
            "INSERT INTO sessions (id, tenant_id, model, settings)
             SELECT $1, id, 'm', '{}' FROM tenants",
        )
        .bind(kept.as_uuid())
        .execute(&mut *conn)
        .await
        .unwrap();
        conn.give_back();

        let [gone, of_others, unnoted] = [(); 3].map(|()| SessionId::new());
        let folder = |id: SessionId| workspaces.join(id.to_string());
        for id in [kept, gone, of_others, unnoted] {
            fs::create_dir_all(folder(id).join("a")).unwrap();
        }
        let note = |database: &str, sessions: Vec<SessionId>| {
            let leaving = Leaving { root: sessions[0], database: database.to_owned(), sessions };
            leaving.note(&workspaces).unwrap();
        };
        note(&here, vec![gone, kept]);
        note("1/2", vec![of_others]);
        let left = || {
            let ids = [kept, gone, of_others, unnoted];
            ids.map(|id| folder(id).exists())
        };
        let notes = || {
            let of = [&*here, "1/2"];
            of.map(|database| {
                list_leaving(&workspaces, database, Duration::ZERO, (None, 10)).unwrap().len()
            })
        };
        clear_once(&pool, &workspaces, (OLD_AFTER, None)).await.unwrap();
        assert_eq!((left(), notes()), ([true; 4], [1, 1]), "they are young");
        clear_once(&pool, &workspaces, (Duration::ZERO, None)).await.unwrap();
        assert_eq!((left(), notes()), ([true, false, true, true], [0, 1]));
    }
    #[tokio::test]
    async fn a_look_begins_where_the_one_before_has_ended() {
        let (database, home) = (database().await, tempfile::TempDir::new().unwrap());
        let pool = Connections::from(database.pool(1));
        let mut conn = pool.acquire().await.unwrap();
        let here = database_id(&mut conn).await.unwrap();
        conn.give_back();
        let mut ids: Vec<_> = (0..=AT_A_TIME).map(|_| SessionId::new()).collect();
        ids.sort_unstable();
        let folder = |id: &SessionId| home.path().join(id.to_string());
        for id in &ids {
            let leaving = Leaving { root: *id, database: here.clone(), sessions: vec![*id] };
            leaving.note(home.path()).unwrap();
            fs::create_dir(folder(id)).unwrap();
        }
        let look = async |after| clear_once(&pool, home.path(), (Duration::ZERO, after)).await;
        let left = || ids.iter().filter(|id| folder(id).exists()).copied().collect::<Vec<_>>();
        assert_eq!(look(Some(ids[0])).await.unwrap(), ids.last().copied());
        assert_eq!(left(), ids[..1]);
        assert_eq!(look(ids.last().copied()).await.unwrap(), Some(ids[0]));
        assert_eq!(left(), []);
    }
}
