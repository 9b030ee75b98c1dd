//! The writer of log lines to stderr, in a thread of its own: a reader that is slow or does not read
//! delays no request and no run. Lines that it does not take in time are lost and counted.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::fmt::MakeWriter;

use super::Redactor;

/// Maximum size of the lines that wait to be written, in bytes.
const CAPACITY: usize = 1024 * 1024;
/// Time that the last lines of the process have to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Buffers up to this size are used again.
const KEPT_BUFFER: usize = 64 * 1024;

/// The lines that this process has lost.
static LOST: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Returns the counter of lines that were lost, because their reader was slow or has ended.
pub fn lost_lines() -> Counter {
    LOST.clone()
}

/// The lines on their way to stderr.
#[derive(Debug, Clone)]
pub(super) struct LogQueue(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Lines have been added, or the queue was closed.
    added: Condvar,
    /// All lines have been written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Lines,
    /// Lines that were lost since the last report.
    lost: u64,
    /// The thread writes lines that are no longer in the queue, or waits for none.
    is_writing: bool,
    is_closed: bool,
}

/// Lines, one after the other.
#[derive(Debug, Default)]
struct Lines {
    text: Vec<u8>,
    /// The end of each line in the text. A message may contain line breaks.
    ends: Vec<usize>,
}

impl Lines {
    fn push(&mut self, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.ends.push(self.text.len());
    }

    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT_BUFFER);
        self.ends.clear();
        self.ends.shrink_to(KEPT_BUFFER / size_of::<usize>());
    }

    /// Writes all lines, redacted, in one call.
    fn write(&self, redactor: &Redactor, to: &mut impl Write) -> io::Result<()> {
        let (mut redacted, mut start) = (Vec::with_capacity(self.text.len()), 0);
        for end in &self.ends {
            let line = self.text.get(start..*end).unwrap_or_default();
            redacted.extend_from_slice(&redactor.redact(line));
            start = *end;
        }
        to.write_all(&redacted)
    }
}

impl LogQueue {
    /// Starts the thread that writes to stderr. Its lines are written until the guard is dropped.
    pub(super) fn to_stderr(redactor: Redactor) -> io::Result<(Self, LogGuard)> {
        // Without the lock of the standard library: while this thread waits for a reader, others can
        // write an error.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Self::start(redactor, stderr)
    }

    fn start(
        redactor: Redactor,
        mut to: impl Write + Send + 'static,
    ) -> io::Result<(Self, LogGuard)> {
        let queue = Arc::new(Queue::default());
        let written = Arc::clone(&queue);
        let write = move || written.write_until_closed(&redactor, &mut to);
        thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok((Self(Arc::clone(&queue)), LogGuard(queue)))
    }
}

impl Queue {
    fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.is_closed || state.lines.text.len() + line.len() > CAPACITY {
            state.lost += 1;
            LOST.inc();
            return;
        }
        state.lines.push(line);
        let wakes = !state.is_writing;
        state.is_writing = true;
        drop(state);
        if wakes {
            self.added.notify_one();
        }
    }

    fn write_until_closed(&self, redactor: &Redactor, to: &mut impl Write) {
        let mut lines = Lines::default();
        while let Some(lost) = self.take(&mut lines) {
            // Lines that cannot be written, because the reader of a pipe has ended or the disk is
            // full, are lost.
            if lines.write(redactor, to).is_err() {
                LOST.inc_by(u64::try_from(lines.ends.len()).unwrap_or(0));
            } else if lost > 0 {
                tracing::warn!(lines = lost, "log lines lost: their reader is too slow");
            }
        }
    }

    /// Waits for lines and takes them all. Returns the number of those that were lost before, or
    /// `None` when the queue is closed and empty.
    fn take(&self, lines: &mut Lines) -> Option<u64> {
        lines.clear();
        let mut state = self.state();
        while state.lines.ends.is_empty() {
            state.is_writing = false;
            self.written.notify_all();
            if state.is_closed {
                return None;
            }
            state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_writing = true;
        std::mem::swap(&mut state.lines, lines);
        Some(std::mem::take(&mut state.lost))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permission to log. When it is dropped, the last lines are written; a reader that does not read
/// loses them.
#[derive(Debug)]
#[must_use = "the last lines are lost without it"]
pub struct LogGuard(Arc<Queue>);

impl Drop for LogGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        self.0.added.notify_one();
        let is_open = |state: &mut State| state.is_writing || !state.lines.ends.is_empty();
        let flushed = self.0.written.wait_timeout_while(state, FLUSH_TIMEOUT, is_open);
        drop(flushed.unwrap_or_else(PoisonError::into_inner));
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = &'a LogQueue;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// The formatter writes each line in one call.
impl Write for &LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::iter;
    use std::time::Instant;

    use super::*;
    use crate::telemetry::Form;

    fn redactor() -> Redactor {
        Redactor::new(iter::once("planted-secret"), Form::Text).unwrap()
    }

    #[test]
    fn lines_are_written_in_their_order_and_redacted() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (queue, guard) = LogQueue::start(redactor(), writer).unwrap();
        for number in 0..1000 {
            (&queue).write_all(format!("{number} planted-secret\n").as_bytes()).unwrap();
        }
        drop(guard);
        let mut written = String::new();
        reader.read_to_string(&mut written).unwrap();
        let expected: Vec<String> = (0..1000).map(|number| format!("{number} ***")).collect();
        assert_eq!(written.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_reader_that_stands_still_loses_lines_and_delays_nothing() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (queue, guard) = LogQueue::start(redactor(), writer).unwrap();
        let lost = lost_lines().get();
        let line = [b"x".repeat(999), vec![b'\n']].concat();
        let started = Instant::now();
        for _ in 0..3000 {
            (&queue).write_all(&line).unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert!(lost_lines().get() >= lost + 1000);
        // The end of the process does not wait for the reader either.
        drop(guard);
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        let mut written = Vec::new();
        reader.read_to_end(&mut written).unwrap();
        assert!(written.len() < 3_000_000 && written.len() % line.len() == 0, "{}", written.len());
    }
}
