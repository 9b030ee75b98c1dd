//! The text of PDF documents.
//!
//! They come from strangers, and what reads them is large: so it runs in a process of its own,
//! which has no files, no network and no environment, little memory and little time.

mod confine;
mod helper;
mod run;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pdf_text::{Document, NoText};
use tokio::sync::Semaphore;

pub use helper::{Stage, enter};

/// The word that leads to the helper on the command line.
pub const COMMAND: &str = "__pdf";
/// The program itself, also when its file has been replaced since it was started.
const OURSELVES: &str = "/proc/self/exe";
/// Bytes of memory of the process that reads, and the seconds that it may compute.
const MEMORY: u64 = 512 * 1024 * 1024;
const SECONDS: u64 = 10;
/// How long a document may wait for its turn, and how long it may take then.
const DEADLINE: Duration = Duration::from_secs(15);
/// Documents that are read at the same time.
const AT_ONCE: usize = 2;

/// Why a document was not read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It was read, and has no text.
    #[error(transparent)]
    NoText(#[from] NoText),
    /// It, or those before it, took too long.
    #[error("it takes longer than {SECONDS} s")]
    Slow,
    /// It is larger than it looks.
    #[error("it needs more than {} MiB of memory", MEMORY / 1024 / 1024)]
    Memory,
    /// It contains itself, or nearly so.
    #[error("it is nested too deeply")]
    Deep,
    /// Something in it is beyond us.
    #[error("reading it failed")]
    Failed,
    /// There is no process to read it.
    #[error("its reader cannot be started: {0}")]
    Start(io::Error),
}

/// Who reads documents. Clones share the turns.
#[derive(Debug, Clone)]
pub struct Reader {
    helper: PathBuf,
    turns: Arc<Semaphore>,
}

impl Default for Reader {
    fn default() -> Self {
        Self::with_helper(OURSELVES.into())
    }
}

impl Reader {
    /// With another program as the helper, where this one is a test.
    pub fn with_helper(helper: PathBuf) -> Self {
        Self { helper, turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Reads a document, up to so many bytes of text. To drop this is to end it.
    pub async fn read(&self, bytes: &[u8], most: usize) -> Result<Document, Unreadable> {
        let turn = tokio::time::timeout(DEADLINE, self.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(Unreadable::Slow) };
        run::run(&self.helper, bytes, most).await
    }
}
