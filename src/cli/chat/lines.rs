//! The input of a chat: a line editor at a terminal, otherwise standard input line by line.

use std::collections::VecDeque;
use std::io::{BufRead as _, stdin};
use std::thread;

use tokio::sync::mpsc::{Receiver, channel};

use super::editor::LineEditor;
use crate::cli::output;
use crate::cli::terminal::{Terminals, one_line};
use crate::config::can_edit_lines;

/// Number of lines that are read ahead.
const READ_AHEAD: usize = 64;
/// The prompt for a message.
const PROMPT: &str = "> ";

/// An input.
#[derive(Debug)]
pub(super) enum Input {
    /// A text; at a terminal it can have several lines.
    Line(String),
    /// Ctrl-C; `discarded` if the line had text, which is then discarded.
    Interrupted { discarded: bool },
    /// The end of input.
    End,
}

/// The inputs of a chat.
#[derive(Debug)]
pub(super) struct Lines {
    source: Source,
    /// Lines that the user typed before a question was shown.
    deferred: VecDeque<String>,
    terminals: Terminals,
}

#[derive(Debug)]
enum Source {
    Editor(LineEditor),
    Plain(Receiver<String>),
}

impl Lines {
    /// Opens the input. The editor needs a terminal for input and output.
    pub(super) fn open(terminals: Terminals) -> Self {
        let is_editable = terminals.is_interactive() && can_edit_lines();
        let editor = if is_editable { LineEditor::open().ok() } else { None };
        let source = editor.map_or_else(|| Source::Plain(read_lines()), Source::Editor);
        Self { source, deferred: VecDeque::new(), terminals }
    }

    /// Returns the next message. Cancel safe.
    pub(super) async fn message(&mut self) -> Input {
        let deferred = self.deferred.pop_front();
        match &mut self.source {
            Source::Editor(editor) => match deferred {
                Some(line) => {
                    output::print_error(&format!("{PROMPT}{}", one_line(&line)));
                    Input::Line(line)
                }
                None => editor.read(PROMPT, true).await,
            },
            Source::Plain(lines) => {
                if self.terminals.input && self.terminals.messages {
                    output::print_prompt(PROMPT);
                }
                match deferred {
                    Some(line) => Input::Line(line),
                    None => lines.recv().await.map_or(Input::End, Input::Line),
                }
            }
        }
    }

    /// Returns the reply to a question. On a terminal, lines that were typed before the question
    /// are not replies; they stay queued as messages.
    pub(super) async fn answer(&mut self, question: &str) -> Input {
        match &mut self.source {
            Source::Editor(editor) => editor.read(question, false).await,
            Source::Plain(lines) => {
                output::print_prompt(question);
                let deferred = if self.terminals.input { None } else { self.deferred.pop_front() };
                match deferred {
                    Some(line) => Input::Line(line),
                    None => lines.recv().await.map_or(Input::End, Input::Line),
                }
            }
        }
    }

    /// Queues the lines typed so far as messages, because a question follows.
    pub(super) fn defer_typed(&mut self) {
        match &mut self.source {
            Source::Editor(_) => self.deferred.extend(LineEditor::take_typed()),
            Source::Plain(lines) if self.terminals.input => {
                while let Ok(line) = lines.try_recv() {
                    self.deferred.push_back(line);
                }
            }
            Source::Plain(_) => {}
        }
    }

    /// True if an interrupted or ended input has left the cursor in the line of the prompt.
    pub(super) fn needs_line_break(&self) -> bool {
        matches!(self.source, Source::Plain(_)) && self.terminals.input
    }
}

/// Reads the lines of standard input.
fn read_lines() -> Receiver<String> {
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
    receiver
}
