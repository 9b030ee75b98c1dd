//! A terminal with a user. The program `script` provides the pseudo-terminal.

use std::fs;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::COMMAND_TIMEOUT;
use crate::support::{PROGRAM, TestApp, binary};

/// A command that runs on a terminal.
pub(super) struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    /// All output so far, with the echo of the typed keys.
    pub(super) output: String,
    /// The end of the last match of [`Self::wait_for`] in `output`.
    matched: usize,
    /// The data folder, for the history.
    pub(super) data: TempDir,
}

impl Terminal {
    /// Starts the program against a service.
    pub(super) fn start(app: &TestApp, args: &[&str]) -> Self {
        Self::at(&app.url(""), args)
    }

    /// Starts the program against a service, on a terminal with this number of columns.
    pub(super) fn of_width(app: &TestApp, args: &[&str], columns: usize) -> Self {
        Self::open(&app.url(""), args, &format!("stty columns {columns} rows 24; "))
    }

    /// Starts the program against the service at this URL.
    pub(super) fn at(server: &str, args: &[&str]) -> Self {
        Self::open(server, args, "")
    }

    fn open(server: &str, args: &[&str], before: &str) -> Self {
        let words: Vec<String> =
            [&[PROGRAM], args].concat().iter().map(|word| quoted(word)).collect();
        let mut command = Command::new("script");
        // The program gets the variables of every command that a test starts.
        command.env_clear();
        for (name, value) in binary(&[]).as_std().get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        // With `exec`, no shell remains that would exit on the Ctrl-C for the program.
        let line = format!("{before}exec {}", words.join(" "));
        let data = tempfile::tempdir().unwrap();
        command.args(["-qefc", &line, "/dev/null"]).env("TWOSTEP_SERVER", server);
        command.env("TWOSTEP_DATA_DIR", data.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (keyboard, screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, keyboard, screen, output: String::new(), matched: 0, data }
    }

    /// Waits for this text in the output after the previous match.
    pub(super) async fn wait_for(&mut self, text: &str) {
        loop {
            if let Some(at) = self.output[self.matched..].find(text) {
                self.matched += at + text.len();
                return;
            }
            assert!(self.read_more().await, "the output has no {text:?}: {}", self.output);
        }
    }

    async fn read_more(&mut self) -> bool {
        let mut chunk = [0; 4096];
        let read = timeout(COMMAND_TIMEOUT, self.screen.read(&mut chunk)).await;
        let read = read.unwrap_or_else(|_| panic!("no more output: {}", self.output)).unwrap_or(0);
        // A character that is split between two chunks is lost; the tests do not depend on one.
        self.output.push_str(&String::from_utf8_lossy(&chunk[..read]));
        read > 0
    }

    /// Presses keys.
    pub(super) async fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).await.unwrap();
        self.keyboard.flush().await.unwrap();
    }

    /// Presses Ctrl-C.
    pub(super) async fn interrupt(&mut self) {
        self.press("\u{3}").await;
    }

    /// Sends SIGINT to the program.
    pub(super) fn send_interrupt_signal(&self) {
        let script = self.child.id().unwrap();
        let children =
            fs::read_to_string(format!("/proc/{script}/task/{script}/children")).unwrap();
        let program = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
        kill_process(program, Signal::INT).unwrap();
    }

    /// Waits until the program exits, and returns its status and all output.
    pub(super) async fn exit(mut self) -> (Option<i32>, String) {
        while self.read_more().await {}
        let status = timeout(COMMAND_TIMEOUT, self.child.wait())
            .await
            .expect("the program did not exit")
            .unwrap();
        (status.code(), self.output)
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
