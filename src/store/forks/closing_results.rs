//! The results with which a fork answers the calls of its last inherited message: those that the
//! source has, and generated ones for calls that have none.

use std::borrow::Cow;
use std::collections::HashMap;

use jiff_sqlx::ToSqlx as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::fork::{ClosingResult, CopyPoint};
use crate::domain::found_tools::{found_text, referenced};
use crate::domain::ids::SessionId;
use crate::domain::message::{BadContent, Content, View};
use crate::domain::tool::{CallResult, CallState};
use crate::domain::tool_error::ToolErrorType;
use crate::store::{StoreError, unreadable};

/// Returns a result for each call of a message, in its order. The list is empty if the message has no
/// calls.
///
/// The results are those of the next message. If the message is the last one, they are those in the
/// ledger that were known when the files of the source were copied.
pub async fn closing_results(
    conn: &mut PgConnection,
    session_id: SessionId,
    seq: i32,
    copied: CopyPoint,
) -> Result<Vec<ClosingResult>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT stored_in AS "stored_in!", content::text AS "content!" FROM history
           WHERE session_id = $1 AND seq = $2 AND role = 'assistant'"#,
        session_id.as_uuid(),
        seq,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(Vec::new()) };
    let calls = calls(row.content).map_err(unreadable("messages", "content"))?;
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let mut answers = HashMap::new();
    if seq < copied.last {
        answers = next_message(conn, session_id, seq + 1).await?;
    }
    // The ledger of another session may have results from after the source was forked from it.
    let mut ledger = if row.stored_in == session_id.as_uuid() {
        ledger(conn, row.stored_in, seq, copied).await?
    } else {
        HashMap::new()
    };
    let result = |id: String| {
        let (recorded, state) = match ledger.remove(&id) {
            Some(LedgerResult { known, state }) => (known, state),
            // A call without a ledger row may have run.
            None => (None, CallState::Interrupted),
        };
        let answered = answers.remove(&id).map(|result| ClosingResult { result, duration_ms: 0 });
        match (recorded, answered) {
            // The ledger has the text. What was made of it for the message (references to tools, blocks of
            // images) is in the message alone.
            (Some(mut recorded), Some(answered)) => {
                let content = &mut recorded.result.content;
                *content = content.take().or(answered.result.content);
                recorded
            }
            (Some(known), None) | (None, Some(known)) => known,
            (None, None) => ClosingResult::unknown(&id, state),
        }
    };
    Ok(calls.into_iter().map(result).collect())
}

fn calls(content: String) -> Result<Vec<String>, BadContent> {
    let content = Content::parse(content)?;
    let ids = content.blocks()?.into_iter().filter_map(|block| match block.view {
        View::ToolUse(call) => Some(call.id.into_owned()),
        View::Text(_)
        | View::Thinking(_)
        | View::RedactedThinking
        | View::ToolResult { .. }
        | View::ServerToolUse { .. }
        | View::Other { .. } => None,
    });
    Ok(ids.collect())
}

/// Reads the results in a message of the user, by their calls.
async fn next_message(
    conn: &mut PgConnection,
    session_id: SessionId,
    seq: i32,
) -> Result<HashMap<String, CallResult>, StoreError> {
    let content = sqlx::query_scalar!(
        r#"SELECT content::text AS "content!" FROM history
           WHERE session_id = $1 AND seq = $2 AND role = 'user'"#,
        session_id.as_uuid(),
        seq,
    )
    .fetch_optional(conn)
    .await?;
    let Some(content) = content else { return Ok(HashMap::new()) };
    results(content).map_err(unreadable("messages", "content"))
}

fn results(content: String) -> Result<HashMap<String, CallResult>, BadContent> {
    #[derive(Deserialize)]
    struct ToolResult<'a> {
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
    }
    let mut results = HashMap::new();
    for block in Content::parse(content)?.blocks()? {
        let View::ToolResult { tool_use_id, is_error } = block.view else { continue };
        let raw = serde_json::from_str::<ToolResult<'_>>(block.raw.get())?.content;
        let text = raw.map(|raw| serde_json::from_str::<Cow<'_, str>>(raw.get()));
        let state = if is_error { CallState::Failed } else { CallState::Done };
        let (text, content) = match (text, raw) {
            (Some(Ok(text)), _) => (text.into_owned(), None),
            (Some(Err(_)), Some(blocks)) => {
                let blocks = blocks.get().to_owned();
                let text = match referenced(&blocks) {
                    Some(names) => found_text(names.iter().map(String::as_str), ""),
                    None => Content::parse(blocks.clone())?.joined_text()?,
                };
                (text, Some(blocks))
            }
            (Some(Err(_)) | None, _) => (String::new(), None),
        };
        let result = CallResult { content, ..CallResult::of_text(&tool_use_id, state, text) };
        results.insert(tool_use_id.into_owned(), result);
    }
    Ok(results)
}

/// A row of the ledger.
struct LedgerResult {
    /// The result, if it was known when the files were copied.
    known: Option<ClosingResult>,
    state: CallState,
}

async fn ledger(
    conn: &mut PgConnection,
    session_id: Uuid,
    seq: i32,
    copied: CopyPoint,
) -> Result<HashMap<String, LedgerResult>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT tool_use_id, state, error_type, content::text,
                  -- A result is recorded after the effects of its call.
                  CASE WHEN finished_at <= $3 THEN result END AS result,
                  coalesce(extract(epoch FROM finished_at - started_at) * 1000, 0)::bigint
                      AS "duration_ms!"
           FROM tool_calls WHERE session_id = $1 AND message_seq = $2"#,
        session_id,
        seq,
        copied.at.to_sqlx() as _,
    )
    .fetch_all(conn)
    .await?;
    let result = rows.into_iter().map(|row| {
        let state = CallState::parse(&row.state)
            .ok_or_else(|| unreadable("tool_calls", "state")(&row.state))?;
        let (content, duration_ms) = (row.content, row.duration_ms);
        let error_type = row.error_type.as_deref().and_then(ToolErrorType::parse);
        let known = row.result.map(|text| {
            let result = CallResult::of_text(&row.tool_use_id, state, text);
            ClosingResult { result: CallResult { content, error_type, ..result }, duration_ms }
        });
        Ok((row.tool_use_id, LedgerResult { known, state }))
    });
    result.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_every_form_are_read_from_a_message() {
        let content = r#"[
            {"type":"tool_result","tool_use_id":"a","content":"one"},
            {"type":"tool_result","tool_use_id":"b","content":"no","is_error":true},
            {"type":"tool_result","tool_use_id":"c"},
            {"type":"tool_result","tool_use_id":"d","content":[{"type":"text","text":"two"}]},
            {"type":"tool_result","tool_use_id":"e","content":[{"type":"tool_reference","tool_name":"t"}]},
            {"type":"text","text":"Go on."}]"#;
        let read = results(content.to_owned()).unwrap();
        let of_text = |id, state, text| CallResult::of_text(id, state, text);
        let blocks = Some(r#"[{"type":"text","text":"two"}]"#.to_owned());
        let found = Some(r#"[{"type":"tool_reference","tool_name":"t"}]"#.to_owned());
        let expected = [
            of_text("a", CallState::Done, "one"),
            of_text("b", CallState::Failed, "no"),
            of_text("c", CallState::Done, ""),
            CallResult { content: blocks, ..of_text("d", CallState::Done, "two") },
            CallResult { content: found, ..of_text("e", CallState::Done, &found_text(["t"], "")) },
        ];
        let expected = expected.map(|result| (result.tool_use_id.clone(), result));
        assert_eq!(read, HashMap::from(expected));
    }
}
