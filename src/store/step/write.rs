//! The statement that writes steps.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::columns::Columns;
use super::encoded::EncodedStep;
use super::step_commit::Committed;
use crate::domain::event::{NewEvent, Stamp};
use crate::domain::ids::SessionId;
use crate::domain::permission::PermissionMode;
use crate::store::StoreError;
use crate::store::events::encode;
use crate::store::group_commit::GroupWrite;

struct Row {
    n: i64,
    is_written: bool,
    last_seq: Option<i64>,
    queued: Option<i32>,
    permission_mode: Option<String>,
    now: Timestamp,
    is_budgeted: bool,
}

/// What became of a step.
#[derive(Debug)]
pub enum Written {
    /// It was written.
    Committed(WrittenStep),
    /// The worker has lost its claim; nothing was written.
    Fenced,
    /// Another transaction has locked the session, the session is deleted, or its owner has a budget
    /// that the step does not know; nothing was written.
    Skipped,
}

/// What the database knows of a step that was written.
#[derive(Debug)]
pub struct WrittenStep {
    first_event: Stamp,
    queued: i32,
    is_budgeted: bool,
    permission_mode: Option<PermissionMode>,
}

impl WrittenStep {
    /// The result of the step, whose events are encoded for their readers.
    pub fn with_events(self, events: &[NewEvent]) -> Committed {
        let Self { first_event, queued, is_budgeted, permission_mode } = self;
        Committed { frames: encode(events, &first_event), queued, is_budgeted, permission_mode }
    }
}

impl GroupWrite for EncodedStep {
    type Written = Written;

    /// Fewer and larger statements cost the database less.
    const STATEMENTS: usize = 1;

    fn session_id(&self) -> SessionId {
        self.session_id
    }

    fn size(&self) -> usize {
        self.size()
    }

    async fn write_all(
        conn: &mut PgConnection,
        steps: &[&Self],
    ) -> Result<Vec<Written>, StoreError> {
        write(conn, steps).await
    }
}

/// Writes steps of several sessions, without the parts of them that need statements of their own.
/// Returns what became of each, in their order. An error concerns all of them.
pub async fn write(
    conn: &mut PgConnection,
    steps: &[&EncodedStep],
) -> Result<Vec<Written>, StoreError> {
    let rows = execute(conn, steps).await?;
    let mut written: Vec<Written> = steps.iter().map(|_| Written::Skipped).collect();
    for row in rows {
        let index = usize::try_from(row.n - 1).unwrap_or(usize::MAX);
        if let (Some(written), Some(step)) = (written.get_mut(index), steps.get(index)) {
            *written = row.written(step);
        }
    }
    Ok(written)
}

impl Row {
    fn written(self, step: &EncodedStep) -> Written {
        if !self.is_written {
            return Written::Fenced;
        }
        Written::Committed(WrittenStep {
            first_event: Stamp {
                session_id: step.session_id,
                run_id: Some(step.fence.run_id),
                seq: self.last_seq.unwrap_or_default() + 1,
                created_at: self.now.to_jiff(),
            },
            queued: self.queued.unwrap_or_default(),
            is_budgeted: self.is_budgeted,
            permission_mode: self.permission_mode.as_deref().and_then(PermissionMode::parse),
        })
    }
}

/// Executes the variant of the statement that has all parts which the steps need.
async fn execute(conn: &mut PgConnection, steps: &[&EncodedStep]) -> Result<Vec<Row>, StoreError> {
    let columns = Columns::of(steps);
    let rows = if steps.iter().any(|step| step.needs_all_parts()) {
        step_query!(full Row, columns).fetch_all(conn).await
    } else {
        step_query!(plain Row, columns).fetch_all(conn).await
    };
    Ok(rows?)
}
