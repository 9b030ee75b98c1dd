//! The writer of log lines to stderr.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

use super::Redactor;

/// Stderr with redaction.
#[derive(Debug)]
pub(super) struct RedactedStderr(Redactor);

impl RedactedStderr {
    pub(super) const fn new(redactor: Redactor) -> Self {
        Self(redactor)
    }
}

impl<'a> MakeWriter<'a> for RedactedStderr {
    type Writer = Lines<'a, io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        Lines { redactor: &self.0, to: io::stderr() }
    }
}

/// Redacts lines; the formatter writes each line in one call.
pub(super) struct Lines<'a, W> {
    redactor: &'a Redactor,
    to: W,
}

impl<W: Write> Write for Lines<'_, W> {
    /// A line that cannot be written, because the reader of a pipe has ended or the disk is full, is
    /// lost. An error would make the formatter print a message, and panic where that fails too.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.to.write_all(&self.redactor.redact(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.to.flush();
        Ok(())
    }
}
