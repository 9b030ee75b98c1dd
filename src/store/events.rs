//! Events: written in the statement that makes the change which they report, read by number.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;

use super::StoreError;
use crate::domain::event::{Frame, NewEvent, Stamp};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::page::Slice;

/// A selection of a session's events.
#[derive(Debug, Clone, Copy)]
pub struct EventRange {
    /// The session.
    pub session_id: SessionId,
    /// Only events of this run.
    pub run_id: Option<RunId>,
    /// Only events with a greater number.
    pub after: i64,
    /// Maximum number of events.
    pub limit: i64,
}

/// Reads one page of a session's events, in the order of their numbers.
pub async fn list_slice(
    conn: &mut PgConnection,
    session_id: SessionId,
    slice: Slice<i64>,
) -> Result<Vec<Frame>, StoreError> {
    let Slice { from, is_upwards, limit } = slice;
    if is_upwards {
        let range = EventRange { session_id, run_id: None, after: from.unwrap_or(0), limit };
        return list(conn, range).await;
    }
    // Numbers have no gaps.
    let newest =
        sqlx::query_scalar!("SELECT last_seq FROM sessions WHERE id = $1", session_id.as_uuid(),)
            .fetch_optional(&mut *conn)
            .await?;
    let before = from.unwrap_or(i64::MAX).min(newest.unwrap_or(0).saturating_add(1));
    let after = before.saturating_sub(1 + limit).max(0);
    let range = EventRange {
        session_id,
        run_id: None,
        after,
        limit: (before.saturating_sub(1) - after).max(0),
    };
    list(conn, range).await
}

/// Reads events in their order, each encoded for its readers.
pub async fn list(conn: &mut PgConnection, range: EventRange) -> Result<Vec<Frame>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT seq, run_id, event_id, type AS kind, body::text AS "body!",
                  created_at AS "created_at: Timestamp"
           FROM events
           WHERE session_id = $1 AND seq > $2 AND ($3::uuid IS NULL OR run_id = $3)
           ORDER BY seq
           LIMIT $4"#,
        range.session_id.as_uuid(),
        range.after,
        range.run_id.map(RunId::as_uuid),
        range.limit,
    )
    .fetch_all(conn)
    .await?;
    let frame = |row: &Stamp, id, kind, body: &str| Frame::encode(id, kind, body, row);
    Ok(rows
        .into_iter()
        .map(|row| {
            let stamp = Stamp {
                session_id: range.session_id,
                run_id: row.run_id.map(Into::into),
                seq: row.seq,
                created_at: row.created_at.to_jiff(),
            };
            frame(&stamp, row.event_id, row.kind, &row.body)
        })
        .collect())
}

/// One part of a longer read.
#[derive(Debug)]
pub struct EventPage {
    /// The events, in their order.
    pub frames: Vec<Frame>,
    /// True if there were no further events.
    pub is_last: bool,
}

/// Reads events until the sum of their body sizes reaches `bytes`; the event that crosses the limit
/// is included. This bounds the memory of the reader and of the server, however large or numerous
/// the events are.
pub async fn read_some(
    conn: &mut PgConnection,
    range: EventRange,
    bytes: i64,
) -> Result<EventPage, StoreError> {
    // Recursive, so that only the bodies that are returned are fetched and decompressed.
    let rows = sqlx::query!(
        r#"WITH RECURSIVE piece AS (
               (SELECT seq, run_id, event_id, type AS kind, body::text AS body, created_at,
                       1::bigint AS count, octet_length(body::text)::bigint AS bytes
                FROM events
                WHERE session_id = $1 AND seq > $2 AND ($3::uuid IS NULL OR run_id = $3)
                ORDER BY seq
                LIMIT 1)
               UNION ALL
               SELECT next.seq, next.run_id, next.event_id, next.type, next.body,
                      next.created_at, piece.count + 1,
                      piece.bytes + octet_length(next.body)
               FROM piece,
                    LATERAL (SELECT seq, run_id, event_id, type, body::text AS body, created_at
                             FROM events
                             WHERE session_id = $1 AND seq > piece.seq
                                   AND ($3::uuid IS NULL OR run_id = $3)
                             ORDER BY seq
                             LIMIT 1) AS next
               WHERE piece.count < $4 AND piece.bytes < $5
           )
           SELECT seq AS "seq!", run_id, event_id AS "event_id!", kind AS "kind!",
                  body AS "body!", created_at AS "created_at!: Timestamp", bytes AS "bytes!"
           FROM piece
           ORDER BY seq"#,
        range.session_id.as_uuid(),
        range.after,
        range.run_id.map(RunId::as_uuid),
        range.limit,
        bytes,
    )
    .fetch_all(conn)
    .await?;
    let is_short = i64::try_from(rows.len()).is_ok_and(|read| read < range.limit);
    let is_last = is_short && rows.last().is_none_or(|row| row.bytes < bytes);
    let frames = rows.into_iter().map(|row| {
        let stamp = Stamp {
            session_id: range.session_id,
            run_id: row.run_id.map(Into::into),
            seq: row.seq,
            created_at: row.created_at.to_jiff(),
        };
        Frame::encode(row.event_id, row.kind, &row.body, &stamp)
    });
    Ok(EventPage { frames: frames.collect(), is_last })
}

/// The numbers of the first and the last of some events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSpan {
    /// The first one.
    pub first: i64,
    /// The last one.
    pub last: i64,
}

impl EventSpan {
    /// The span of consecutive events; none without events.
    pub fn of(frames: &[Frame]) -> Option<Self> {
        Some(Self { first: frames.first()?.seq, last: frames.last()?.seq })
    }
}

/// Finds the events that report the decisions and results of a client for these calls of a run.
pub async fn find_answers(
    conn: &mut PgConnection,
    session_id: SessionId,
    run_id: RunId,
    tool_use_ids: &[String],
) -> Result<Option<EventSpan>, StoreError> {
    let span = sqlx::query!(
        r#"SELECT min(e.seq) AS first, max(e.seq) AS last
           FROM events e JOIN runs r ON r.id = $2
           WHERE e.session_id = $1 AND e.run_id = $2 AND e.seq > r.accepted_seq
             AND e.type IN ('user.tool_confirmation', 'user.custom_tool_result')
             AND coalesce(e.body->>'tool_use_id', e.body->>'custom_tool_use_id') = ANY ($3)"#,
        session_id.as_uuid(),
        run_id.as_uuid(),
        tool_use_ids,
    )
    .fetch_one(conn)
    .await?;
    Ok(span.first.zip(span.last).map(|(first, last)| EventSpan { first, last }))
}

/// Appends events outside of a worker's step: a client's change of a run or of its session.
pub async fn append(
    conn: &mut PgConnection,
    session_id: SessionId,
    run_id: Option<RunId>,
    events: &[NewEvent],
) -> Result<Vec<Frame>, StoreError> {
    let columns = Columns::of(events);
    let row = sqlx::query!(
        r#"WITH session AS (
               UPDATE sessions SET last_seq = last_seq + $3, updated_at = now() WHERE id = $1
               RETURNING id, tenant_id, last_seq - $3 AS base
           ), event AS (
               INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
               SELECT s.id, s.base + e.ord, s.tenant_id, $2, e.id, e.kind, e.body::json
               FROM session s,
                    unnest($4::text[], $5::text[], $6::text[])
                        WITH ORDINALITY AS e (id, kind, body, ord)
           )
           SELECT base AS "base!", now() AS "now!: Timestamp" FROM session"#,
        session_id.as_uuid(),
        run_id.map(RunId::as_uuid),
        columns.len(),
        &columns.ids as _,
        &columns.kinds as _,
        &columns.bodies as _,
    )
    .fetch_one(conn)
    .await?;
    let first = Stamp { session_id, run_id, seq: row.base + 1, created_at: row.now.to_jiff() };
    Ok(encode(events, &first))
}

/// Events as the array parameters of a statement.
#[derive(Debug, Default)]
pub(super) struct Columns<'a> {
    pub(super) ids: Vec<&'a str>,
    pub(super) kinds: Vec<&'static str>,
    pub(super) bodies: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(events: &'a [NewEvent]) -> Self {
        let mut columns = Self::default();
        for event in events {
            columns.ids.push(&event.id);
            columns.kinds.push(event.kind);
            columns.bodies.push(&event.body);
        }
        columns
    }

    pub(super) fn len(&self) -> i64 {
        i64::try_from(self.ids.len()).unwrap_or(i64::MAX)
    }
}

/// Encodes consecutive events; `first` is the stamp of the first one.
pub(super) fn encode(events: &[NewEvent], first: &Stamp) -> Vec<Frame> {
    let mut stamp = first.clone();
    let mut frames = Vec::with_capacity(events.len());
    for event in events {
        frames.push(Frame::encode(event.id.clone(), event.kind.to_owned(), &event.body, &stamp));
        stamp.seq += 1;
    }
    frames
}
