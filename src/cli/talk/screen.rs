//! A run as it looks on a terminal: what the agent says on stdout, as it comes; what it does on
//! stderr, a line each.

use super::event::{Delta, Event, Previewed, ThreadEvent, text};
use crate::cli::client::Came;
use crate::cli::output;
use crate::cli::terminal::{Terminals, one_line, safe};

/// Where it is told what happens, apart from what is said.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Notes {
    is_shown: bool,
    is_dim: bool,
    /// Whether a note would stand in the middle of what is said.
    interrupts: bool,
}

impl Notes {
    /// Only for somebody who looks on.
    pub(in crate::cli) fn of_progress(terminals: Terminals) -> Self {
        let is_shown = terminals.words;
        Self { is_shown, is_dim: is_shown, interrupts: is_shown && terminals.output }
    }

    /// For everybody.
    pub(in crate::cli) fn of_conversation(terminals: Terminals) -> Self {
        Self { is_shown: true, is_dim: terminals.words, interrupts: terminals.output }
    }

    fn line(self, line: &str) {
        if !self.is_shown {
            return;
        }
        output::complain(&if self.is_dim {
            format!("\u{1b}[2m{line}\u{1b}[0m")
        } else {
            line.to_owned()
        });
    }
}

/// A run that somebody watches.
#[derive(Debug)]
pub(in crate::cli) struct Screen {
    notes: Notes,
    /// What is being said.
    open: Option<Open>,
    /// Whether the line on stdout has no end yet.
    is_in_line: bool,
}

/// A text on its way to the screen.
#[derive(Debug)]
struct Open {
    id: String,
    /// What of it is shown: nothing shown can be taken back.
    shown: String,
    /// What is known of it since it last began.
    known: String,
}

impl Screen {
    pub(in crate::cli) fn new(notes: Notes) -> Self {
        Self { notes, open: None, is_in_line: false }
    }

    /// Shows what came.
    pub(in crate::cli) fn see(&mut self, came: &Came) {
        match came {
            Came::Lost => self.note("connection lost, coming back"),
            // An event of a later version that looks otherwise is not shown.
            Came::Event(json) => {
                if let Ok(event) = serde_json::from_str(json) {
                    self.show(event);
                }
            }
        }
    }

    /// Tells something that happened.
    pub(in crate::cli) fn note(&mut self, line: &str) {
        if self.notes.interrupts {
            self.end_line();
        }
        self.notes.line(&one_line(line));
    }

    /// Ends the line on stdout, if there is one.
    pub(in crate::cli) fn end_line(&mut self) {
        if std::mem::take(&mut self.is_in_line) {
            output::say("");
        }
    }

    fn show(&mut self, event: Event) {
        match event {
            Event::Start { event } => self.begin(event),
            Event::Delta { event_id, delta } => {
                if let Delta::Content { content } = delta {
                    self.add(&event_id, content.text());
                }
            }
            Event::Message { id, content } => self.end(id, &text(&content)),
            Event::ToolUse { name, input } => self.note(&format!("· {name} {input}")),
            Event::ToolResult { content, is_error: true } => {
                self.note(&format!("  failed: {}", text(&content)));
            }
            Event::Compacted(_) => self.note("· the conversation was summed up"),
            Event::Rescheduled(_) => {
                self.open = None;
                self.note("the model failed, it is asked again");
                self.end_line();
            }
            Event::Thread { session_thread_id, event } => {
                self.show_thread(&session_thread_id, &event);
            }
            Event::Deleted(_) => self.note("the session was deleted"),
            Event::ToolResult { is_error: false, .. } | Event::Other => {}
        }
    }

    /// What a sub-agent does. That it waits is told to everybody: nobody else would decide.
    fn show_thread(&mut self, session: &str, event: &ThreadEvent) {
        match event {
            ThreadEvent::ToolUse { name, input } => {
                self.note(&format!("  · sub-agent: {name} {input}"));
            }
            ThreadEvent::Idle { stop_reason } if stop_reason.asks() => {
                self.end_line();
                let line = "a sub-agent waits for a decision: twostep chat --session";
                output::complain(&one_line(&format!("{line} {session}")));
            }
            ThreadEvent::Idle { .. } | ThreadEvent::Other => {}
        }
    }

    fn begin(&mut self, event: Previewed) {
        let Previewed { r#type, id } = event;
        if r#type != "agent.message" {
            return;
        }
        match &mut self.open {
            // After a lost connection it begins anew, with all that there is of it.
            Some(open) if open.id == id => open.known.clear(),
            Some(_) | None => {
                self.end_line();
                self.open = Some(Open { id, shown: String::new(), known: String::new() });
            }
        }
    }

    fn add(&mut self, id: &str, piece: &str) {
        if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
            open.known.push_str(piece);
            self.catch_up();
        }
    }

    fn end(&mut self, id: String, whole: &str) {
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            self.end_line();
            self.open = Some(Open { id, shown: String::new(), known: String::new() });
        }
        if let Some(open) = &mut self.open {
            whole.clone_into(&mut open.known);
        }
        self.catch_up();
        self.open = None;
        self.end_line();
    }

    /// Shows what is known and not shown yet. A text that turned out otherwise is shown again.
    fn catch_up(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        if !open.shown.starts_with(&open.known) {
            let more = if let Some(more) = open.known.strip_prefix(&*open.shown) {
                more
            } else {
                self.end_line();
                &open.known
            };
            output::write(&safe(more));
            self.is_in_line = !more.ends_with('\n');
            open.shown.clone_from(&open.known);
        }
        self.open = Some(open);
    }
}
