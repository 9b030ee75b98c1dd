//! Events of some types, found among the others within a bound.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::StoreError;
use crate::domain::event::{Frame, Stamp};
use crate::domain::ids::SessionId;
use crate::domain::page::Slice;

/// Events that are looked at for one page, however few of them are of its types: their types are in
/// no index, which every event would have to pay for.
pub const LOOKS_AT: i64 = 5000;

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// The events, by their numbers.
    pub frames: Vec<Frame>,
    /// The number up to which was looked, if fewer were found than were wanted and there are others
    /// behind it.
    pub up_to: Option<i64>,
}

/// Finds events of these types in a session whose newest event is known.
pub async fn list_types(
    conn: &mut PgConnection,
    (session_id, newest): (SessionId, i64),
    slice: Slice<i64>,
    types: &[&str],
) -> Result<Found, StoreError> {
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
    Ok(Found { frames: frames.collect(), up_to: behind.filter(|_| is_short) })
}

/// The numbers that are looked at; they have no gaps.
fn range(slice: Slice<i64>, newest: i64) -> (i64, i64) {
    if slice.is_upwards {
        let first = slice.from.unwrap_or(0).saturating_add(1).max(1);
        return (first, first.saturating_add(LOOKS_AT - 1).min(newest));
    }
    let last = slice.from.map_or(newest, |from| from.saturating_sub(1).min(newest));
    (last.saturating_sub(LOOKS_AT - 1).max(1), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_looks_at_so_many_numbers_on_either_side() {
        let (far, many) = (i64::MAX, LOOKS_AT);
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
