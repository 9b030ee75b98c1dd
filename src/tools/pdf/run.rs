//! The service's side: starts the helper, sends the document, and reads the result until the
//! deadline.

use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use pdf_text::{Document, ExtractError};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::helper::{Stage, arguments};
use super::{DEADLINE, PdfError};

/// Maximum number of bytes to read from stderr.
const MAX_STDERR: u64 = 4096;
/// Limits on the size of the result: bytes besides the text, and the growth of text in JSON.
const OVERHEAD: u64 = 1024 * 1024;
const JSON_GROWTH: u64 = 2;

/// Reads a document. Dropping the future ends the helper.
pub(super) async fn run(
    helper: &Path,
    bytes: &[u8],
    max_bytes: usize,
) -> Result<Document, PdfError> {
    let child = start(helper, max_bytes).map_err(PdfError::Start)?;
    let limit = JSON_GROWTH * max_bytes as u64 + OVERHEAD;
    let outcome = timeout(DEADLINE, exchange(child, bytes, limit)).await;
    let outcome = outcome.map_err(|_elapsed| PdfError::Slow)?.map_err(PdfError::Start)?;
    if !outcome.status.success() {
        tracing::info!(status = %outcome.status, stderr = ?outcome.stderr, "PDF not read");
        return Err(failure(outcome.status, &outcome.stderr));
    }
    let result: Result<Document, ExtractError> =
        serde_json::from_slice(&outcome.stdout).map_err(|_| PdfError::Failed)?;
    Ok(result?)
}

/// Starts the helper with an empty environment, so that it has none of the service's secrets.
fn start(helper: &Path, max_bytes: usize) -> io::Result<Child> {
    Command::new(helper)
        .args(arguments(Stage::Limit, max_bytes))
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

struct Outcome {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: String,
}

async fn exchange(mut child: Child, bytes: &[u8], limit: u64) -> io::Result<Outcome> {
    let missing = || io::Error::other("a pipe is missing");
    let mut stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let send = async move {
        match stdin.write_all(bytes).await {
            // The helper has ended; its status has the reason.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        }
    };
    let ((), stdout, stderr) =
        tokio::try_join!(send, read_up_to(stdout, limit), read_up_to(stderr, MAX_STDERR))?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    Ok(Outcome { status: child.wait().await?, stdout, stderr })
}

/// Reads to the end or the limit. Then the pipe is closed, and further writes of the helper fail.
async fn read_up_to(from: impl AsyncRead + Unpin, limit: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    from.take(limit).read_to_end(&mut read).await?;
    Ok(read)
}

/// Returns the reason of a failed helper.
fn failure(status: ExitStatus, stderr: &str) -> PdfError {
    match status.signal() {
        Some(libc::SIGXCPU | libc::SIGKILL) => PdfError::Slow,
        Some(_) if stderr.contains("memory allocation of") => PdfError::Memory,
        Some(_) if stderr.contains("has overflowed its stack") => PdfError::Deep,
        Some(_) | None => PdfError::Failed,
    }
}
