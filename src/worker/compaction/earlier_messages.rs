//! What came before a run: how long it is, and where it may be cut.

use crate::domain::budget::{Estimate, Measured};
use crate::domain::message::Role;
use crate::model::Messages;
use crate::store::messages::{Line, list_lines};
use crate::store::requests::{counted, failed_summary, last_answered};
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::Driver;
use crate::worker::run::stop_cause::Halt;

/// Bytes of a body that are taken for a token where nobody counts.
const BYTES_PER_TOKEN: i64 = 3;

/// What came before a run.
pub(in crate::worker) struct Past {
    /// The history that is sent message by message, the run's own message included.
    pub(super) lines: Vec<Line>,
    /// The sizes of the run's first request.
    pub(super) sizes: Sizes,
    /// What the model's side counted last.
    measured: Option<Measured>,
    /// The last message of the user in a request that was answered.
    answered: Option<i32>,
}

/// How many bytes the first request of a run has.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct Sizes {
    /// In all.
    pub(in crate::worker) whole: i64,
    /// What came before the run's own message, with what all requests begin with.
    pub(in crate::worker) past: i64,
    /// The messages.
    pub(in crate::worker) messages: i64,
}

impl Past {
    /// The lines up to a message.
    pub(in crate::worker) fn up_to(&self, seq: i32) -> &[Line] {
        let end = self.lines.partition_point(|line| line.seq <= seq);
        self.lines.get(..end).unwrap_or_default()
    }

    /// The messages before which it may be cut: at the run's own; where that leaves too much, behind
    /// the last request that was answered; and in the middle. No call is open at any of them.
    pub(in crate::worker) fn cuts(&self) -> Vec<i32> {
        let own = self.lines.last().map(|line| line.seq);
        let answered = self.answered.map(|seq| seq + 1);
        let first = self.lines.first().map_or(0, |line| line.seq);
        let mut cuts = Vec::new();
        for cut in [own, answered, self.middle()].into_iter().flatten() {
            if cut > first && !cuts.contains(&cut) {
                cuts.push(cut);
            }
        }
        cuts
    }

    /// The first message of a run behind half of it.
    fn middle(&self) -> Option<i32> {
        let all: usize = self.lines.iter().map(|line| line.content.len()).sum();
        let mut before = 0;
        let behind = self.lines.iter().filter(|line| {
            let is_behind = before >= all / 2;
            before += line.content.len();
            is_behind
        });
        let begins = |line: &&Line| {
            line.role == Role::User.as_str() && !line.content.contains(r#""tool_result""#)
        };
        behind.into_iter().find(begins).map(|line| line.seq)
    }

    /// The tokens of the run's first request, where nobody counts them.
    pub(in crate::worker) fn guess(&self) -> i64 {
        let bytes = self.sizes.whole;
        let known = self.measured.filter(|known| known.tokens > 0 && known.bytes <= bytes);
        known.map_or(bytes / BYTES_PER_TOKEN, |known| {
            known.tokens + (bytes - known.bytes) / BYTES_PER_TOKEN
        })
    }
}

impl Driver<'_> {
    /// Reads what came before the run; none if its first request has surely less than so many
    /// tokens, or if the past could not be summed up when it was not much shorter.
    pub(in crate::worker) async fn past(
        &mut self,
        sizes: Sizes,
        least: Option<i64>,
    ) -> Result<Option<Past>, Halt> {
        let mut patience = Patience::default();
        loop {
            match in_time(self.try_past(sizes, least)).await {
                Ok(past) => return Ok(past),
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }

    async fn try_past(&self, sizes: Sizes, least: Option<i64>) -> Result<Option<Past>, Halt> {
        let (id, after) = (self.session_id(), self.compacted());
        let mut conn = self.worker.parts.pool.acquire().await?;
        // What was counted was counted after edits, and a summary is made of all.
        let has_edits = self.run.settings.context.edits.is_some();
        let counted = counted(&mut conn, id).await?.filter(|_| !has_edits);
        let measured = counted.map(|counted| counted.measured);
        if let Some(least) = least {
            let most = Estimate::new(sizes.whole, 0, None, measured).tokens;
            let known = measured.map_or(0, |measured| measured.tokens);
            let failed = failed_summary(&mut conn, id, after).await?;
            let is_tried = failed.is_some_and(|failed| sizes.past < failed + failed / 4);
            if is_tried || most.max(known) < least {
                conn.give_back();
                return Ok(None);
            }
        }
        let lines = list_lines(&mut conn, id, after).await?;
        let answered = last_answered(&mut conn, id, (after, self.last_message_seq() - 1)).await?;
        conn.give_back();
        Ok(Some(Past { lines, sizes, measured, answered }))
    }

    /// Asks the model's side for the tokens of the run's first request with these messages, with
    /// nothing left out by edits. None where it does not say, or the run is to stop: the run goes
    /// on by a guess then.
    pub(in crate::worker) async fn count(&self, messages: Messages<'_>) -> Option<i64> {
        let (model, tools) = (&self.worker.parts.model, self.run.options.tools.as_deref());
        let counted = model.count_tokens(&self.run.settings, tools, messages);
        let counted = self.signals.unless_stopped(counted).await.ok()??;
        if let Err(error) = &counted {
            tracing::warn!(run.id = %self.run_id(), %error, "the tokens of a request are guessed");
        }
        counted.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(kinds: &[(&str, usize)], answered: Option<i32>) -> Past {
        let line = |(seq, (kind, length)): (i32, &(&str, usize))| Line {
            seq,
            role: if *kind == "assistant" { "assistant" } else { "user" }.to_owned(),
            content: format!(r#"[{{"type":"{kind}"}}]{}"#, "x".repeat(*length)),
        };
        let sizes = Sizes { whole: 3000, past: 2000, messages: 1000 };
        Past { lines: (5..).zip(kinds).map(line).collect(), sizes, measured: None, answered }
    }

    #[test]
    fn a_past_is_cut_before_the_run_or_where_it_surely_fits_or_in_the_middle() {
        let talk = [
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
        assert_eq!(past(&talk, Some(9)).cuts(), [13, 10, 11]);
        assert_eq!(past(&talk[..2], None).cuts(), [6]);
        assert_eq!(past(&talk[..1], Some(5)).cuts(), [6]);
        assert_eq!(past(&talk[..1], None).cuts(), [] as [i32; 0]);
    }

    #[test]
    fn tokens_are_guessed_from_what_was_counted() {
        let mut past = past(&[], None);
        assert_eq!(past.guess(), 1000);
        for (measured, guess) in [
            (Measured { bytes: 2400, tokens: 600 }, 800),
            (Measured { bytes: 2400, tokens: 0 }, 1000),
            (Measured { bytes: 3001, tokens: 9 }, 1000),
        ] {
            past.measured = Some(measured);
            assert_eq!(past.guess(), guess);
        }
    }
}
