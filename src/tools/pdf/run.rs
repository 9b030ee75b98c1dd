//! The side of whoever wants to read a document: starts the helper, gives it the document, and
//! takes what it says, for as long as there is time.

use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use pdf_text::{Document, NoText};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::helper::{Stage, arguments};
use super::{DEADLINE, Unreadable};

/// What of stderr is looked at.
const MAX_SAID: u64 = 4096;
/// What stands in the answer besides the text, and how much longer a text can be in JSON.
const REST: u64 = 1024 * 1024;
const LONGER: u64 = 2;

/// Reads a document. To drop this is to end the helper.
pub(super) async fn run(helper: &Path, bytes: &[u8], most: usize) -> Result<Document, Unreadable> {
    let child = start(helper, most).map_err(Unreadable::Start)?;
    let limit = LONGER * most as u64 + REST;
    let heard = timeout(DEADLINE, hear(child, bytes, limit)).await;
    let heard = heard.map_err(|_elapsed| Unreadable::Slow)?.map_err(Unreadable::Start)?;
    if !heard.status.success() {
        tracing::info!(status = %heard.status, said = ?heard.said, "a PDF was not read");
        return Err(why(heard.status, &heard.said));
    }
    let answer: Result<Document, NoText> =
        serde_json::from_slice(&heard.answer).map_err(|_| Unreadable::Failed)?;
    Ok(answer?)
}

/// An empty environment, so that nothing of ours can be read back from it.
fn start(helper: &Path, most: usize) -> io::Result<Child> {
    Command::new(helper)
        .args(arguments(Stage::Limit, most))
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

struct Heard {
    status: ExitStatus,
    answer: Vec<u8>,
    said: String,
}

async fn hear(mut child: Child, bytes: &[u8], limit: u64) -> io::Result<Heard> {
    let missing = || io::Error::other("a pipe is missing");
    let mut stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let give = async move {
        match stdin.write_all(bytes).await {
            // It has ended, and says why by its status.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            given => given,
        }
    };
    let ((), answer, said) = tokio::try_join!(give, all(stdout, limit), all(stderr, MAX_SAID))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok(Heard { status: child.wait().await?, answer, said })
}

/// Reads to the end, or as much as anybody wants; then whoever writes more finds nobody to read.
async fn all(from: impl AsyncRead + Unpin, limit: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    from.take(limit).read_to_end(&mut read).await?;
    Ok(read)
}

/// What ended it.
fn why(status: ExitStatus, said: &str) -> Unreadable {
    match status.signal() {
        Some(libc::SIGXCPU | libc::SIGKILL) => Unreadable::Slow,
        Some(_) if said.contains("memory allocation of") => Unreadable::Memory,
        Some(_) if said.contains("has overflowed its stack") => Unreadable::Deep,
        Some(_) | None => Unreadable::Failed,
    }
}
