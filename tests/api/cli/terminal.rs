//! A person at a terminal. `script`, which every system has, gives the terminal.

use std::process::Stdio;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::PATIENCE;
use crate::support::{PROGRAM, TestApp, binary};

/// A command that runs on a terminal.
pub(super) struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    /// All that was on the screen, what was typed included.
    pub(super) seen: String,
    /// How much of it was looked at.
    read: usize,
}

impl Terminal {
    /// Starts the program against a service.
    pub(super) fn start(app: &TestApp, args: &[&str]) -> Self {
        Self::at(&app.url(""), args)
    }

    /// The same of the service at this URL.
    pub(super) fn at(server: &str, args: &[&str]) -> Self {
        let words: Vec<String> =
            [&[PROGRAM], args].concat().iter().map(|word| quoted(word)).collect();
        let mut command = Command::new("script");
        // Its variables are those of every command that a test starts.
        command.env_clear();
        for (name, value) in binary(&[]).as_std().get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        // A shell that stays would die of the Ctrl-C that is meant for the program.
        let line = format!("exec {}", words.join(" "));
        command.args(["-qefc", &line, "/dev/null"]).env("TWOSTEP_SERVER", server);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (keyboard, screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, keyboard, screen, seen: String::new(), read: 0 }
    }

    /// Waits until this is on the screen, behind what was waited for before.
    pub(super) async fn until(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen[self.read..].find(text) {
                self.read += at + text.len();
                return;
            }
            assert!(self.see_more().await, "there was no {text:?}: {}", self.seen);
        }
    }

    async fn see_more(&mut self) -> bool {
        let mut piece = [0; 4096];
        let read = timeout(PATIENCE, self.screen.read(&mut piece)).await;
        let read = read.unwrap_or_else(|_| panic!("nothing more came: {}", self.seen)).unwrap_or(0);
        // Nothing in these tests is cut where it would matter.
        self.seen.push_str(&String::from_utf8_lossy(&piece[..read]));
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

    /// Waits for the end: the status, and all that was on the screen.
    pub(super) async fn end(mut self) -> (Option<i32>, String) {
        while self.see_more().await {}
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it did not end").unwrap();
        (status.code(), self.seen)
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
