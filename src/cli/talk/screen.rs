//! Output of a run on a terminal: the text of the agent on stdout while it streams, and its actions
//! on stderr, one line each.

use super::event::{Delta, Event, Previewed, SubAgentEvent, text};
use super::markdown::Markdown;
use super::progress::{Progress, shortened};
use crate::cli::client::Update;
use crate::cli::output;
use crate::cli::terminal::{Terminals, columns, one_line, safe};

/// The form of the notes about actions on stderr.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct NoteStyle {
    is_shown: bool,
    is_dim: bool,
    /// True if a note would interrupt a line of the answer.
    interrupts: bool,
}

impl NoteStyle {
    /// Notes that are shown only if stderr is a terminal.
    pub(in crate::cli) fn of_progress(terminals: Terminals) -> Self {
        let is_shown = terminals.messages;
        Self { is_shown, is_dim: is_shown, interrupts: is_shown && terminals.output }
    }

    /// Notes that are always shown.
    pub(in crate::cli) fn of_conversation(terminals: Terminals) -> Self {
        Self { is_shown: true, is_dim: terminals.messages, interrupts: terminals.output }
    }

    fn line(self, line: &str) {
        if !self.is_shown {
            return;
        }
        if self.is_dim {
            output::print_faint(line);
        } else {
            output::print_error(line);
        }
    }
}

/// The screen state of a run.
#[derive(Debug)]
pub(in crate::cli) struct Screen {
    notes: NoteStyle,
    /// The text that is streaming.
    open: Option<StreamedText>,
    /// True if the current line on stdout is not terminated.
    is_in_line: bool,
    /// The form for a user who reads and types at a terminal; otherwise text stays as it is.
    rich: Option<Rich>,
}

/// Wrapped text, results of tools, and a progress line.
#[derive(Debug)]
struct Rich {
    markdown: Markdown,
    progress: Progress,
    /// True if the progress line is shown.
    is_shown: bool,
    /// True if no update has arrived since the last second.
    is_idle: bool,
}

impl Rich {
    fn new() -> Self {
        Self {
            markdown: Markdown::new(columns()),
            progress: Progress::new(),
            is_shown: false,
            is_idle: false,
        }
    }
}

/// A text that is streaming.
#[derive(Debug)]
struct StreamedText {
    id: String,
    /// The part that is printed; printed text cannot be removed.
    shown: String,
    /// The text received since its last start.
    known: String,
}

impl Screen {
    pub(in crate::cli) fn new(notes: NoteStyle) -> Self {
        Self { notes, open: None, is_in_line: false, rich: None }
    }

    /// A screen for a user who reads and types at a terminal.
    pub(in crate::cli) fn rich(notes: NoteStyle) -> Self {
        Self { rich: Some(Rich::new()), ..Self::new(notes) }
    }

    /// Begins to show a run.
    pub(in crate::cli) fn begin(&mut self) {
        if let Some(rich) = &mut self.rich {
            *rich = Rich::new();
        }
    }

    /// Shows an update.
    pub(in crate::cli) fn show(&mut self, update: &Update) {
        let is_wait = matches!(update, Update::Waiting);
        if let Some(rich) = &mut self.rich {
            let was_idle = std::mem::replace(&mut rich.is_idle, is_wait);
            if is_wait && was_idle {
                // The beginning of a word whose rest is late.
                output::write_styled(&rich.markdown.flush());
            }
        }
        match update {
            Update::Waiting => self.show_progress(),
            Update::ConnectionLost => self.note("connection lost, reconnecting"),
            // An event that a later version changed is skipped.
            Update::Event(json) => {
                if let Ok(event) = serde_json::from_str(json) {
                    self.show_event(event);
                }
            }
        }
    }

    /// Prints a note.
    pub(in crate::cli) fn note(&mut self, line: &str) {
        if self.notes.interrupts {
            self.end_line_by(Markdown::interrupt);
        }
        self.clear_progress();
        self.notes.line(&one_line(line));
    }

    /// Terminates the current line on stdout.
    pub(in crate::cli) fn end_line(&mut self) {
        self.end_line_by(Markdown::finish);
    }

    fn end_line_by(&mut self, end: fn(&mut Markdown) -> String) {
        self.clear_progress();
        let is_in_line = std::mem::take(&mut self.is_in_line);
        if let Some(rich) = &mut self.rich {
            output::write_styled(&end(&mut rich.markdown));
        } else if is_in_line {
            output::print_line("");
        }
    }

    /// Shows what the run does, unless a line of the answer is not terminated.
    fn show_progress(&mut self) {
        if let (Some(rich), false) = (&mut self.rich, self.is_in_line) {
            rich.is_shown = true;
            // A line of the whole width would begin the next line.
            output::replace_faint(&rich.progress.line(columns().saturating_sub(1)));
        }
    }

    fn clear_progress(&mut self) {
        if let Some(rich) = &mut self.rich
            && std::mem::take(&mut rich.is_shown)
        {
            output::replace_line("");
        }
    }

    /// Applies an event to the progress line.
    fn progress(&mut self, event: &Event) {
        let Some(Rich { progress, .. }) = &mut self.rich else { return };
        match event {
            Event::Running(_) => progress.begin("waiting for the model"),
            Event::ModelRequest(_) => progress.begin("the model works"),
            Event::Start { event } if event.r#type == "agent.thinking" => {
                progress.begin("the model thinks");
            }
            Event::ToolUse { id, name, input } => {
                progress.start_call(id.clone(), one_line(&format!("{name} {input}")));
            }
            Event::ToolResult { tool_use_id, .. } => progress.end_call(tool_use_id),
            Event::Rescheduled(_) => progress.begin("waiting to repeat the model request"),
            Event::Start { .. }
            | Event::Delta { .. }
            | Event::Message { .. }
            | Event::Compacted(_)
            | Event::SubAgent { .. }
            | Event::Deleted(_)
            | Event::Other => {}
        }
    }

    /// Shows the beginning of a result on one line.
    fn show_result(&mut self, result: &str) {
        if self.rich.is_none() {
            return;
        }
        let mut lines = result.lines().filter(|line| !line.trim().is_empty());
        let first = one_line(lines.next().unwrap_or("no output").trim());
        let more = match lines.count() {
            0 => String::new(),
            more => format!(" … {} lines", more + 1),
        };
        let length = columns().saturating_sub(more.chars().count() + 4);
        self.note(&format!("  → {}{more}", shortened(&first, length)));
    }

    fn show_event(&mut self, event: Event) {
        self.progress(&event);
        match event {
            Event::Start { event } => self.start(event),
            Event::Delta { event_id, delta } => {
                if let Delta::Content { content } = delta {
                    self.add(&event_id, content.text());
                }
            }
            Event::Message { id, content } => self.end(id, &text(&content)),
            Event::ToolUse { name, input, .. } => self.note(&format!("· {name} {input}")),
            Event::ToolResult { content, is_error: true, .. } => {
                self.note(&format!("  failed: {}", text(&content)));
            }
            Event::ToolResult { content, is_error: false, .. } => self.show_result(&text(&content)),
            Event::Compacted(_) => self.note("· the conversation was compacted"),
            Event::Rescheduled(_) => {
                self.open = None;
                self.note("the model request failed and is retried");
                self.end_line();
            }
            Event::SubAgent { session_thread_id, event } => {
                self.show_sub_agent(&session_thread_id, &event);
            }
            Event::Deleted(_) => self.note("the session was deleted"),
            Event::Running(_) | Event::ModelRequest(_) | Event::Other => {}
        }
    }

    /// Shows an event of a sub-agent. A wait for a decision is always shown, because the user must
    /// decide.
    fn show_sub_agent(&mut self, session: &str, event: &SubAgentEvent) {
        match event {
            SubAgentEvent::ToolUse { name, input } => {
                self.note(&format!("  · sub-agent: {name} {input}"));
            }
            SubAgentEvent::Idle { stop_reason } if stop_reason.needs_action() => {
                self.end_line();
                let line = "a sub-agent waits for a decision: twostep chat --session";
                output::print_error(&one_line(&format!("{line} {session}")));
            }
            SubAgentEvent::Idle { .. } | SubAgentEvent::Other => {}
        }
    }

    fn start(&mut self, event: Previewed) {
        let Previewed { r#type, id } = event;
        if r#type != "agent.message" {
            return;
        }
        match &mut self.open {
            // After a reconnect the preview starts again with its complete text.
            Some(open) if open.id == id => open.known.clear(),
            Some(_) | None => {
                self.end_line();
                self.open = Some(StreamedText { id, shown: String::new(), known: String::new() });
            }
        }
    }

    fn add(&mut self, id: &str, piece: &str) {
        if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
            open.known.push_str(piece);
            self.print_rest();
        }
    }

    fn end(&mut self, id: String, whole: &str) {
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            self.end_line();
            self.open = Some(StreamedText { id, shown: String::new(), known: String::new() });
        }
        if let Some(open) = &mut self.open {
            whole.clone_into(&mut open.known);
        }
        self.print_rest();
        self.open = None;
        self.end_line();
    }

    /// Prints the part that is not printed yet. A text that was replaced is printed again.
    fn print_rest(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        if !open.shown.starts_with(&open.known) {
            let more = if let Some(more) = open.known.strip_prefix(&*open.shown) {
                more
            } else {
                self.end_line();
                &open.known
            };
            let shown = self.rich.as_mut().map(|rich| rich.markdown.push(&safe(more)));
            self.clear_progress();
            match shown {
                Some(styled) => output::write_styled(&styled),
                None => output::write(more),
            }
            self.is_in_line = !more.ends_with('\n');
            open.shown.clone_from(&open.known);
        }
        self.open = Some(open);
    }
}
