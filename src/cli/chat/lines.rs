//! Standard input, line by line.

use std::collections::VecDeque;
use std::io::{BufRead as _, stdin};
use std::thread;

use tokio::sync::mpsc::{Receiver, channel};

/// Number of lines that are read ahead.
const READ_AHEAD: usize = 64;

/// The lines of standard input.
#[derive(Debug)]
pub(super) struct Lines {
    receiver: Receiver<String>,
    /// Lines that the user typed before a question was shown.
    deferred: VecDeque<String>,
    is_terminal: bool,
}

impl Lines {
    pub(super) fn open(is_terminal: bool) -> Self {
        let (sender, receiver) = channel(READ_AHEAD);
        // Not a thread of the runtime: its shutdown would wait for the blocking read.
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
        Self { receiver, deferred: VecDeque::new(), is_terminal }
    }

    /// Returns the next line, or `None` at the end of input. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<String> {
        match self.deferred.pop_front() {
            Some(line) => Some(line),
            None => self.receiver.recv().await,
        }
    }

    /// Returns the reply to a question. On a terminal, lines that were typed before the question
    /// are not replies; they stay queued as messages.
    pub(super) async fn answer(&mut self) -> Option<String> {
        if !self.is_terminal {
            return self.next().await;
        }
        self.receiver.recv().await
    }

    /// Queues the lines typed so far as messages, because a question follows.
    pub(super) fn defer_typed(&mut self) {
        while self.is_terminal
            && let Ok(line) = self.receiver.try_recv()
        {
            self.deferred.push_back(line);
        }
    }
}
