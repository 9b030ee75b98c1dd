//! Search for events of given types, with a bound on the work.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::StoreError;
use crate::domain::event::{Frame, Stamp};
use crate::domain::ids::SessionId;
use crate::domain::page::Slice;

/// Maximum number of events that are read for one page, however few of them match: event types have
/// no index, which every insert would have to maintain.
pub const MAX_SEARCHED: i64 = 5000;

/// The result of a search.
#[derive(Debug)]
pub struct FoundEvents {
    /// The events, by their numbers.
    pub frames: Vec<Frame>,
    /// The number up to which events were read, if the page is not full and there are more events.
    pub up_to: Option<i64>,
}

/// Finds events of these types in a session whose newest event is known.
pub async fn list_types(
    conn: &mut PgConnection,
    session_id: SessionId,
    newest: i64,
    slice: Slice<i64>,
    types: &[&str],
) -> Result<FoundEvents, StoreError> {
    let (first, last) = range(slice, newest);
    let rows = sqlx::query!(
        r#"WITH found AS (
               SELECT seq FROM events
               WHERE session_id = $1 AND seq BETWEEN $2 AND $3 AND type = ANY ($4::text[])
               ORDER BY CASE WHEN $5 THEN seq ELSE -seq END
               LIMIT $6
           )
           SELECT seq, run_id, event_id, type AS kind, body::text AS "body!",
                  created_at AS "created_at: Timestamp"
           FROM events JOIN found USING (seq)
           WHERE session_id = $1
           ORDER BY seq"#,
        session_id.as_uuid(),
        first,
        last,
        types as _,
        slice.is_upwards,
        slice.limit,
    )
    .fetch_all(conn)
    .await?;
    let is_short = i64::try_from(rows.len()).is_ok_and(|found| found < slice.limit);
    let frames = rows.into_iter().map(|row| {
        let stamp = Stamp {
            session_id,
            run_id: row.run_id.map(Into::into),
            seq: row.seq,
            created_at: row.created_at.to_jiff(),
        };
        Frame::encode(row.event_id, row.kind, &row.body, &stamp)
    });
    let behind = if slice.is_upwards {
        (last < newest).then_some(last)
    } else {
        (first > 1).then_some(first)
    };
    Ok(FoundEvents { frames: frames.collect(), up_to: behind.filter(|_| is_short) })
}

/// The range of numbers to read; numbers have no gaps.
fn range(slice: Slice<i64>, newest: i64) -> (i64, i64) {
    if slice.is_upwards {
        let first = slice.from.unwrap_or(0).saturating_add(1).max(1);
        return (first, first.saturating_add(MAX_SEARCHED - 1).min(newest));
    }
    let last = slice.from.map_or(newest, |from| from.saturating_sub(1).min(newest));
    (last.saturating_sub(MAX_SEARCHED - 1).max(1), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_a_bounded_range_of_numbers_in_either_direction() {
        let (far, many) = (i64::MAX, MAX_SEARCHED);
        for (from, is_upwards, expected) in [
            (None, true, (1, many)),
            (Some(-7), true, (1, many)),
            (Some(3), true, (4, many + 3)),
            (Some(2 * many), true, (2 * many + 1, 2 * many + 5)),
            (Some(far), true, (far, 2 * many + 5)),
            (None, false, (many + 6, 2 * many + 5)),
            (Some(far), false, (many + 6, 2 * many + 5)),
            (Some(many + 2), false, (2, many + 1)),
            (Some(many), false, (1, many - 1)),
            (Some(1), false, (1, 0)),
            (Some(i64::MIN), false, (1, i64::MIN)),
        ] {
            let slice = Slice { from, is_upwards, limit: 1 };
            assert_eq!(range(slice, 2 * many + 5), expected, "{slice:?}");
        }
    }
}
