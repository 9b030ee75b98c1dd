//! What log lines pass on their way to stderr.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

use super::Redactor;

/// Stderr, on which no secret is written.
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

/// Takes lines, each in one piece, as the formatter writes them.
pub(super) struct Lines<'a, W> {
    redactor: &'a Redactor,
    to: W,
}

impl<W: Write> Write for Lines<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.to.write_all(&self.redactor.redact(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
