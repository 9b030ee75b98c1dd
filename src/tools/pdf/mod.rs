//! Text extraction from PDF documents in a confined process.
//!
//! The documents are untrusted and the parser is large. So it runs in its own process without
//! files, network and environment, and with limits on memory and time.

mod confine;
mod helper;
mod run;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pdf_text::{Document, ExtractError};
use tokio::sync::Semaphore;

pub use helper::{Stage, enter};

/// The subcommand of the helper.
pub const COMMAND: &str = "__pdf";
/// The executable of this process, also when its file has been replaced since it was started.
const OURSELVES: &str = "/proc/self/exe";
/// Limits of the helper: memory in bytes, and CPU time in seconds.
const MEMORY: u64 = 512 * 1024 * 1024;
const SECONDS: u64 = 10;
/// Timeout of the wait for a permit, and of the extraction after it.
const DEADLINE: Duration = Duration::from_secs(15);
/// Maximum number of documents to read at the same time.
const MAX_CONCURRENT: usize = 2;

/// The reason that a document was not read.
#[derive(Debug, thiserror::Error)]
pub enum PdfError {
    /// The document has no text that can be extracted.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// The time limit passed, for this document or for those before it.
    #[error("it takes longer than {SECONDS} s")]
    Slow,
    /// The memory limit was reached.
    #[error("it needs more than {} MiB of memory", MEMORY / 1024 / 1024)]
    Memory,
    /// The stack overflowed.
    #[error("it is nested too deeply")]
    Deep,
    /// The helper failed for another reason.
    #[error("reading it failed")]
    Failed,
    /// The helper process cannot be started.
    #[error("its reader cannot be started: {0}")]
    Start(io::Error),
}

/// A reader of documents. Clones share its permits.
#[derive(Debug, Clone)]
pub struct Reader {
    helper: PathBuf,
    permits: Arc<Semaphore>,
}

impl Default for Reader {
    fn default() -> Self {
        Self::with_helper(OURSELVES.into())
    }
}

impl Reader {
    /// Returns a reader with another helper program, for tests, whose own executable is not the service.
    pub fn with_helper(helper: PathBuf) -> Self {
        Self { helper, permits: Arc::new(Semaphore::new(MAX_CONCURRENT)) }
    }

    /// Extracts at most `max_bytes` bytes of text. Dropping the future ends the helper.
    pub async fn read(&self, bytes: &[u8], max_bytes: usize) -> Result<Document, PdfError> {
        let permit = tokio::time::timeout(DEADLINE, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else { return Err(PdfError::Slow) };
        run::run(&self.helper, bytes, max_bytes).await
    }
}
