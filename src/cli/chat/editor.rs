//! The line editor of a terminal: editing keys, pasted text as one input, and a history in the data
//! folder.
//!
//! The editor reads in a thread of its own, and only while input is expected. At other times the terminal
//! keeps the typed characters without an echo, and Ctrl-C is a signal.

use std::io::{Write as _, stdin, stdout};
use std::mem::take;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler, KeyCode,
    KeyEvent, Modifiers, RepeatCount,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::lines::Input;
use crate::config::data_dir;
use crate::tools::workspace::create_private_folder;

/// The file of the history in the data folder. The library creates it with mode 0600.
const HISTORY: &str = "chat-history";
/// Number of messages in the history.
const MAX_HISTORY: usize = 1000;
/// Ends the mode in which the terminal marks pasted text.
const END_PASTE_MODE: &[u8] = b"\x1b[?2004l";
/// Number of typed bytes that are read at once.
const TYPED: usize = 4096;

/// An input that is expected.
struct Request {
    prompt: String,
    /// True for a message, which enters the history. Other inputs are replies to questions.
    is_message: bool,
}

/// The line editor.
#[derive(Debug)]
pub(super) struct LineEditor {
    requests: mpsc::Sender<Request>,
    inputs: Receiver<Input>,
    /// True while the editor reads.
    is_reading: bool,
    _terminal: SavedTerminal,
}

impl LineEditor {
    /// Starts the editor.
    pub(super) fn open() -> anyhow::Result<Self> {
        let terminal = SavedTerminal::without_echo()?;
        let (requests, received) = mpsc::channel();
        let (sender, inputs) = channel(1);
        // Not a thread of the runtime: its shutdown would wait for the blocking read.
        thread::spawn(move || read_requested(&received, &sender));
        Ok(Self { requests, inputs, is_reading: false, _terminal: terminal })
    }

    /// Reads a message, or the reply to a question. Cancel safe: the next call continues.
    pub(super) async fn read(&mut self, prompt: &str, is_message: bool) -> Input {
        if !self.is_reading {
            let request = Request { prompt: prompt.to_owned(), is_message };
            if self.requests.send(request).is_err() {
                return Input::End;
            }
            self.is_reading = true;
        }
        let input = self.inputs.recv().await.unwrap_or(Input::End);
        self.is_reading = false;
        input
    }

    /// Returns the complete lines that were typed while no input was expected, and discards the beginning
    /// of a further one: a question follows, to which they are no replies.
    pub(super) fn take_typed() -> Vec<String> {
        let mut typed = Vec::new();
        while is_readable() {
            let mut bytes = [0; TYPED];
            let Ok(length @ 1..) = rustix::io::read(stdin(), &mut bytes) else { break };
            typed.extend_from_slice(bytes.get(..length).unwrap_or_default());
        }
        complete_lines(&String::from_utf8_lossy(&typed))
    }
}

/// The complete lines of typed keys, of which only the backspace has an effect.
fn complete_lines(typed: &str) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    let mut keys = typed.chars();
    while let Some(key) = keys.next() {
        match key {
            '\r' | '\n' => lines.push(take(&mut line)),
            '\u{7f}' | '\u{8}' => {
                line.pop();
            }
            // The sequence of a key ends with a letter.
            '\u{1b}' => {
                keys.by_ref().find(char::is_ascii_alphabetic);
            }
            key if key.is_control() => {}
            key => line.push(key),
        }
    }
    lines
}

fn is_readable() -> bool {
    let input = stdin();
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Reads each requested input until no more are requested.
fn read_requested(requests: &mpsc::Receiver<Request>, inputs: &Sender<Input>) {
    let history = data_dir().ok().filter(|folder| create_private_folder(folder).is_ok());
    let history = history.map(|folder| folder.join(HISTORY));
    let mut messages = None;
    while let Ok(request) = requests.recv() {
        let input = if request.is_message {
            read_message(&mut messages, &request.prompt, history.as_ref())
        } else {
            // An editor of its own: lines that the other one has received are messages, not replies.
            editor().map_or(Input::End, |mut editor| input_of(editor.readline(&request.prompt)))
        };
        if inputs.blocking_send(input).is_err() {
            break;
        }
    }
}

fn read_message(
    editor_of_messages: &mut Option<Editor<(), FileHistory>>,
    prompt: &str,
    history: Option<&PathBuf>,
) -> Input {
    if editor_of_messages.is_none() {
        let mut created = editor().ok();
        if let (Some(editor), Some(history)) = (&mut created, history) {
            // There is none at the first start.
            let _ = editor.load_history(history);
        }
        *editor_of_messages = created;
    }
    let Some(editor) = editor_of_messages else { return Input::End };
    let interrupted = Arc::new(Mutex::new(String::new()));
    editor.bind_sequence(
        KeyEvent::ctrl('C'),
        EventHandler::Conditional(Box::new(KeepLine(Arc::clone(&interrupted)))),
    );
    let mut input = input_of(editor.readline(prompt));
    if let Input::Interrupted { discarded } = &mut input {
        let line = interrupted.lock().map(|mut line| take(&mut *line)).unwrap_or_default();
        *discarded = !line.trim().is_empty();
        if *discarded {
            // The arrow key brings the text back. It is not a message, so it is not stored.
            let _ = editor.add_history_entry(line);
        }
    }
    if let (Input::Line(line), Some(history)) = (&input, history)
        && !line.trim().is_empty()
    {
        // A history that cannot be written is only missing at the next start.
        let _ = editor.add_history_entry(line).and_then(|_| editor.append_history(history));
    }
    input
}

fn editor() -> rustyline::Result<Editor<(), FileHistory>> {
    let config = Config::builder().max_history_size(MAX_HISTORY)?.bracketed_paste(true).build();
    let mut editor = Editor::with_config(config)?;
    for key in [KeyCode::Enter, KeyCode::Char('\r')] {
        let alt_enter = KeyEvent(key, Modifiers::ALT);
        editor.bind_sequence(alt_enter, EventHandler::Simple(Cmd::Newline));
    }
    Ok(editor)
}

/// Keeps the text of a line that Ctrl-C interrupts.
struct KeepLine(Arc<Mutex<String>>);

impl ConditionalEventHandler for KeepLine {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        if let Ok(mut line) = self.0.lock() {
            context.line().clone_into(&mut line);
        }
        Some(Cmd::Interrupt)
    }
}

fn input_of(read: rustyline::Result<String>) -> Input {
    match read {
        Ok(line) => Input::Line(line),
        Err(ReadlineError::Interrupted) => Input::Interrupted { discarded: false },
        Err(_) => Input::End,
    }
}

/// The settings of the terminal at the start, which are restored at the end, also while the editor reads.
#[derive(Debug)]
struct SavedTerminal(Termios);

impl SavedTerminal {
    fn without_echo() -> rustix::io::Result<Self> {
        let saved = tcgetattr(stdin())?;
        let mut silent = saved.clone();
        // Without lines, the editor later receives each key, such as Ctrl-D, as it was pressed.
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        tcsetattr(stdin(), OptionalActions::Now, &silent)?;
        Ok(Self(saved))
    }
}

impl Drop for SavedTerminal {
    fn drop(&mut self) {
        let mut stdout = stdout();
        let _ = stdout.write_all(END_PASTE_MODE).and_then(|()| stdout.flush());
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_lines_that_were_typed_are_messages() {
        assert_eq!(complete_lines("one\rtwp\u{7f}o\nthr"), ["one", "two"]);
        assert_eq!(complete_lines("a\u{1b}[Db\u{4}\n"), ["ab"]);
        assert_eq!(complete_lines(""), Vec::<String>::new());
    }
}
