//! The progress of a run on a terminal: what runs, and for how many seconds.

use tokio::time::Instant;

/// The present activity of a run.
#[derive(Debug)]
pub(super) struct Progress {
    phase: &'static str,
    /// The calls that run, with their ids, in the order of their starts.
    calls: Vec<(String, String)>,
    since: Instant,
}

impl Progress {
    /// A run that no worker has claimed yet.
    pub(super) fn new() -> Self {
        Self { phase: "waiting", calls: Vec::new(), since: Instant::now() }
    }

    /// The run begins another phase.
    pub(super) fn begin(&mut self, phase: &'static str) {
        if self.phase != phase {
            self.phase = phase;
            self.since = Instant::now();
        }
    }

    /// A call with this id was made.
    pub(super) fn start_call(&mut self, id: String, call: String) {
        if self.calls.is_empty() {
            self.since = Instant::now();
        }
        self.calls.push((id, call));
    }

    /// A call has its result.
    pub(super) fn end_call(&mut self, id: &str) {
        self.calls.retain(|(known, _)| known != id);
        self.since = Instant::now();
    }

    /// The line, in at most this number of columns.
    pub(super) fn line(&self, columns: usize) -> String {
        let seconds = format!(" {} s", self.since.elapsed().as_secs());
        let more = match self.calls.len() {
            0 | 1 => seconds,
            calls => format!(" and {} more calls{seconds}", calls - 1),
        };
        let what = self.calls.first().map_or(self.phase, |(_, call)| call);
        shortened(what, columns.saturating_sub(more.len())) + &more
    }
}

/// Shortens a text to this number of characters.
pub(super) fn shortened(text: &str, length: usize) -> String {
    if text.char_indices().nth(length).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(length.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_line_names_the_oldest_call_and_its_seconds() {
        let mut progress = Progress::new();
        assert_eq!(progress.line(60), "waiting 0 s");
        progress.begin("thinking");
        tokio::time::advance(std::time::Duration::from_secs(7)).await;
        progress.begin("thinking");
        assert_eq!(progress.line(60), "thinking 7 s");
        progress.start_call("1".to_owned(), "Bash sleep 9".to_owned());
        progress.start_call("2".to_owned(), "Bash true".to_owned());
        assert_eq!(progress.line(60), "Bash sleep 9 and 1 more calls 0 s");
        progress.end_call("2");
        assert_eq!(progress.line(11), "Bash s… 0 s");
        progress.end_call("1");
        assert_eq!(progress.line(60), "thinking 0 s");
    }
}
