//! The program as an operator runs it.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use super::kept_output;
use super::machine::HUNG;

/// The time limit of a start or a stop. Only a program that hangs exceeds it.
const TIME_LIMIT: Duration = HUNG;

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_twostep");

/// The program with these arguments, without variables of our environment that configure it.
pub(crate) fn binary(args: &[&str]) -> Command {
    binary_at(Path::new(PROGRAM), args)
}

/// As [`binary`], with another path. The program requires no API keys unless the test sets so.
pub(crate) fn binary_at(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_clear().env("TWOSTEP_AUTH", "open").kill_on_drop(true);
    for name in ["PATH", "HOME", "PG_BIN_DIR", "LANG", "SSL_CERT_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// The program with a limit of open files.
pub(crate) fn binary_of_few_files(files: u32, args: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    let script = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, PROGRAM]).args(args);
    command.env_clear().env("TWOSTEP_AUTH", "open").kill_on_drop(true);
    command
}

/// The program with its log in a file.
pub(crate) fn binary_logging_to(log: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>\"$LOG\"", PROGRAM]).args(args);
    command.env_clear().env("LOG", log).env("TWOSTEP_AUTH", "open").kill_on_drop(true);
    command
}

/// Runs a command to its end, and returns status, stdout and stderr.
pub(crate) async fn outcome(mut command: Command) -> (Option<i32>, String, String) {
    let output = timeout(TIME_LIMIT, command.stdin(Stdio::null()).output()).await;
    let Output { status, stdout, stderr } = output.expect("the command did not exit").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let stderr = text(stderr);
    kept_output::keep_response(&stderr);
    (status.code(), text(stdout), stderr)
}

/// A folder for a private database. Its path is short, for a socket, and the unprivileged user that
/// runs the server can enter it.
pub(crate) fn data_dir() -> TempDir {
    let folder = tempfile::Builder::new().prefix("twostep-data-").tempdir_in("/tmp").unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    folder
}

/// A running `twostep serve`.
pub(crate) struct Program {
    child: Child,
    _stdout: Lines<BufReader<ChildStdout>>,
    /// The text that it printed when it was ready.
    pub(crate) greeting: String,
    /// The URL of the service.
    pub(crate) url: String,
}

impl Program {
    /// Starts the program and waits until it has printed that it is ready.
    pub(crate) async fn serve(mut command: Command) -> Self {
        kept_output::log_of(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = loop {
            match command.spawn() {
                // A process that another test has just forked has a copy of the program still open.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                    sleep(Duration::from_millis(10)).await;
                }
                child => break child.unwrap(),
            }
        };
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut greeting = String::new();
        // The last line of the greeting is the body of the example.
        while !greeting.contains("-d '{") {
            let line = timeout(TIME_LIMIT, lines.next_line()).await;
            let line = line.expect("the service did not become ready").unwrap();
            greeting.push_str(&line.expect("the service exited during its start"));
            greeting.push('\n');
        }
        let url = greeting.lines().find_map(|line| line.trim().strip_prefix("url ")).unwrap();
        Self { url: url.trim().to_owned(), child, _stdout: lines, greeting }
    }

    /// The address as `host:port`.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// The resident memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id().unwrap());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    /// The used processor time, in hundredths of a second.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = format!("/proc/{}/stat", self.child.id().unwrap());
        let stat = std::fs::read_to_string(stat).unwrap();
        // The process name may contain any character; it ends at the last parenthesis.
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.id().unwrap().try_into().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Sends SIGTERM and waits until the program has exited.
    pub(crate) async fn terminate(self) -> (ExitStatus, Duration) {
        self.end_by(Signal::TERM).await
    }

    /// Sends a signal and waits until the program has exited.
    pub(crate) async fn end_by(mut self, signal: Signal) -> (ExitStatus, Duration) {
        let started = Instant::now();
        self.signal(signal);
        let status = timeout(TIME_LIMIT, self.child.wait()).await;
        let status = status.expect("the program did not exit").unwrap();
        (status, started.elapsed())
    }
}
