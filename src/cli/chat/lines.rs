//! What is typed, a line at a time.

use std::collections::VecDeque;
use std::io::{BufRead as _, stdin};
use std::thread;

use tokio::sync::mpsc::{Receiver, channel};

/// Lines that are read before anybody wants them.
const AHEAD: usize = 64;

/// The lines of stdin.
#[derive(Debug)]
pub(super) struct Lines {
    come: Receiver<String>,
    /// Typed while something else was asked.
    kept: VecDeque<String>,
    is_terminal: bool,
}

impl Lines {
    pub(super) fn open(is_terminal: bool) -> Self {
        let (sender, come) = channel(AHEAD);
        // Not a thread of the runtime, whose end would wait for somebody who types.
        thread::spawn(move || {
            let mut stdin = stdin().lock();
            let mut line = Vec::new();
            while stdin.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line);
                if sender.blocking_send(text.trim_end_matches(['\r', '\n']).to_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Self { come, kept: VecDeque::new(), is_terminal }
    }

    /// The next one; none at the end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<String> {
        match self.kept.pop_front() {
            Some(line) => Some(line),
            None => self.come.recv().await,
        }
    }

    /// The answer to a question. On a terminal that is a line that was typed after it: what came
    /// before was meant for something else, and waits.
    pub(super) async fn answer(&mut self) -> Option<String> {
        if !self.is_terminal {
            return self.next().await;
        }
        self.come.recv().await
    }

    /// Puts what was typed so far aside: a question follows.
    pub(super) fn put_aside(&mut self) {
        while self.is_terminal
            && let Ok(line) = self.come.try_recv()
        {
            self.kept.push_back(line);
        }
    }
}
