//! The messages before a run: their size, and where a summary of them may end.

use sqlx::PgConnection;

use crate::domain::budget::{Estimate, MeasuredRequest};
use crate::domain::message::Role;
use crate::model::Messages;
use crate::store::messages::{Line, list_lines};
use crate::store::requests::{CountedRequest, counted, failed_summary, last_answered};
use crate::worker::run::context::RunContext;
use crate::worker::run::step_writer::StepWriter;
use crate::worker::run::stop_cause::StopCause;

/// Assumed bytes of a token, if the model's server does not count tokens.
const BYTES_PER_TOKEN: i64 = 3;

/// The messages before a run.
#[derive(Debug)]
pub(super) struct EarlierMessages {
    /// The messages after the last summary, the run's own message included.
    pub(super) lines: Vec<Line>,
    /// The sizes of the run's first request.
    pub(super) sizes: RequestSizes,
    /// The size of the session's last counted request.
    measured: Option<MeasuredRequest>,
    /// The last user message in a request that was answered.
    last_answered: Option<i32>,
}

/// The sizes of the first request of a run, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestSizes {
    /// The whole request.
    pub(super) whole: i64,
    /// The head and all messages before the run's own.
    pub(super) earlier: i64,
    /// All messages.
    pub(super) messages: i64,
}

impl EarlierMessages {
    /// Reads the messages before the run.
    pub(super) async fn read(
        run: &RunContext<'_>,
        writer: &StepWriter<'_>,
        sizes: RequestSizes,
    ) -> Result<Self, StopCause> {
        let pool = &run.services.pool;
        let read = |_| {
            pool.with(async |conn| {
                let measured = measured(conn, run).await?;
                Self::load(conn, run, writer, sizes, measured).await
            })
        };
        run.retry(read).await
    }

    /// Reads the messages before the run; none if its first request certainly has fewer tokens than
    /// `threshold`, or if a summary failed when the messages were not much shorter.
    pub(super) async fn read_if_long(
        run: &RunContext<'_>,
        writer: &StepWriter<'_>,
        sizes: RequestSizes,
        threshold: i64,
    ) -> Result<Option<Self>, StopCause> {
        let after = writer.transcript.compacted();
        let pool = &run.services.pool;
        let read = |_| {
            pool.with(async |conn| {
                let measured = measured(conn, run).await?;
                let most = Estimate::new(sizes.whole, 0, None, measured).tokens;
                let known = measured.map_or(0, |measured| measured.tokens);
                let failed = failed_summary(conn, run.session_id(), after).await?;
                let has_failed = failed.is_some_and(|failed| sizes.earlier < failed + failed / 4);
                if has_failed || most.max(known) < threshold {
                    return Ok(None);
                }
                Ok(Some(Self::load(conn, run, writer, sizes, measured).await?))
            })
        };
        run.retry(read).await
    }

    async fn load(
        conn: &mut PgConnection,
        run: &RunContext<'_>,
        writer: &StepWriter<'_>,
        sizes: RequestSizes,
        measured: Option<MeasuredRequest>,
    ) -> Result<Self, StopCause> {
        let (session_id, after) = (run.session_id(), writer.transcript.compacted());
        let lines = list_lines(conn, session_id, after).await?;
        let before = writer.last_message_seq() - 1;
        let last_answered = last_answered(conn, session_id, after, before).await?;
        Ok(Self { lines, sizes, measured, last_answered })
    }

    /// The lines up to a message.
    pub(super) fn up_to(&self, seq: i32) -> &[Line] {
        let end = self.lines.partition_point(|line| line.seq <= seq);
        self.lines.get(..end).unwrap_or_default()
    }

    /// The messages before which a summary may end, in the order to try: the run's own message; if
    /// that summarizes too much, the message after the last answered request; and one in the middle.
    /// No call is open at any of them.
    pub(super) fn ends(&self) -> Vec<i32> {
        let own = self.lines.last().map(|line| line.seq);
        let after_answered = self.last_answered.map(|seq| seq + 1);
        let first = self.lines.first().map_or(0, |line| line.seq);
        let mut ends = Vec::new();
        for end in [own, after_answered, self.middle()].into_iter().flatten() {
            if end > first && !ends.contains(&end) {
                ends.push(end);
            }
        }
        ends
    }

    /// The messages before which a summary within the run may end, in the order to try: the message
    /// of the user that began the run; if nothing precedes it, or if it is summarized already, the
    /// last reply with calls, so that the last round is kept. None if a summary would cover nothing.
    pub(super) fn ends_within_run(&self) -> Vec<i32> {
        let first = self.lines.first().map_or(0, |line| line.seq);
        let own = self.lines.iter().rev().find(|line| begins_run(line)).map(|line| line.seq);
        let mut end = None;
        let mut is_after_user = false;
        for line in &self.lines {
            let is_user = line.role == Role::User.as_str();
            if !is_user && is_after_user {
                end = Some(line.seq);
            }
            is_after_user = is_user;
        }
        let ends = [own, end].into_iter().flatten();
        // A summary of the user's message alone would be no shorter.
        ends.filter(|end| *end > first + 1 || (own == Some(*end) && *end > first)).collect()
    }

    /// The first message of a run in the second half.
    fn middle(&self) -> Option<i32> {
        let all: usize = self.lines.iter().map(|line| line.content.len()).sum();
        let mut before = 0;
        let second_half = self.lines.iter().filter(|line| {
            let is_in_second_half = before >= all / 2;
            before += line.content.len();
            is_in_second_half
        });
        second_half.into_iter().find(|line| begins_run(line)).map(|line| line.seq)
    }

    /// The estimated tokens of the run's first request.
    pub(super) fn estimated_tokens(&self) -> i64 {
        let bytes = self.sizes.whole;
        let known = self.measured.filter(|known| known.tokens > 0 && known.bytes <= bytes);
        known.map_or(bytes / BYTES_PER_TOKEN, |known| {
            known.tokens + (bytes - known.bytes) / BYTES_PER_TOKEN
        })
    }
}

/// True for a message of a user without results of calls.
fn begins_run(line: &Line) -> bool {
    line.role == Role::User.as_str() && !line.content.contains(r#""tool_result""#)
}

/// The size of the session's last counted request. Tokens are counted after context edits, but a
/// summary covers all content, so the count of a session with edits is of no use.
async fn measured(
    conn: &mut PgConnection,
    run: &RunContext<'_>,
) -> Result<Option<MeasuredRequest>, StopCause> {
    let has_edits = run.settings().context.edits.is_some();
    let is_comparable =
        |counted: &CountedRequest| !has_edits && counted.model == run.settings().model;
    let counted = counted(conn, run.session_id()).await?.filter(is_comparable);
    Ok(counted.map(|counted| counted.measured))
}

/// Asks the model's server for the tokens of the run's first request with these messages, without
/// context edits. None if the server does not count tokens or the run is stopped: the caller uses an
/// estimate then.
pub(super) async fn count_tokens(run: &RunContext<'_>, messages: Messages<'_>) -> Option<i64> {
    let model = &run.model().server.client;
    let counted = model.count_tokens(run.settings(), run.run_tools(), messages);
    let counted = run.signals.unless_stopped(counted).await.ok()??;
    if let Err(error) = &counted {
        tracing::warn!(run.id = %run.run_id(), %error, "tokens of a request estimated, not counted");
    }
    counted.ok()
}

/// A number of bytes.
pub(super) fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn earlier(kinds: &[(&str, usize)], last_answered: Option<i32>) -> EarlierMessages {
        let line = |(seq, (kind, length)): (i32, &(&str, usize))| Line {
            seq,
            role: if *kind == "assistant" { "assistant" } else { "user" }.to_owned(),
            content: format!(r#"[{{"type":"{kind}"}}]{}"#, "x".repeat(*length)),
        };
        let sizes = RequestSizes { whole: 3000, earlier: 2000, messages: 1000 };
        EarlierMessages {
            lines: (5..).zip(kinds).map(line).collect(),
            sizes,
            measured: None,
            last_answered,
        }
    }

    #[test]
    fn a_summary_ends_before_the_run_or_at_the_last_answered_request_or_in_the_middle() {
        let conversation = [
            ("text", 10),
            ("assistant", 10),
            ("text", 500),
            ("assistant", 10),
            ("tool_result", 100),
            ("assistant", 10),
            ("text", 10),
            ("assistant", 10),
            ("text", 10),
        ];
        assert_eq!(earlier(&conversation, Some(9)).ends(), [13, 10, 11]);
        assert_eq!(earlier(&conversation[..2], None).ends(), [6]);
        assert_eq!(earlier(&conversation[..1], Some(5)).ends(), [6]);
        assert_eq!(earlier(&conversation[..1], None).ends(), [] as [i32; 0]);
    }

    #[test]
    fn a_summary_within_a_run_ends_at_its_message_or_keeps_its_last_round() {
        let run = [
            ("text", 10),
            ("assistant", 10),
            ("tool_result", 10),
            ("assistant", 10),
            ("tool_result", 10),
        ];
        let ends = |conversation: &[(&str, usize)]| earlier(conversation, None).ends_within_run();
        assert_eq!(ends(&[&[("text", 10), ("assistant", 10)], &run[..]].concat()), [7, 10]);
        assert_eq!(ends(&run), [8]);
        assert_eq!(ends(&run[..3]), [] as [i32; 0], "only the message and its round");
        assert_eq!(ends(&run[1..]), [7], "the message is summarized already");
        assert_eq!(ends(&run[3..]), [] as [i32; 0]);
    }

    #[test]
    fn tokens_are_estimated_from_the_last_counted_request() {
        let mut earlier = earlier(&[], None);
        assert_eq!(earlier.estimated_tokens(), 1000);
        for (measured, guess) in [
            (MeasuredRequest { bytes: 2400, tokens: 600 }, 800),
            (MeasuredRequest { bytes: 2400, tokens: 0 }, 1000),
            (MeasuredRequest { bytes: 3001, tokens: 9 }, 1000),
        ] {
            earlier.measured = Some(measured);
            assert_eq!(earlier.estimated_tokens(), guess);
        }
    }
}
