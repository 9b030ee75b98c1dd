//! Output of a run.

use super::Output;
use crate::cli::client::Update;
use crate::cli::output;
use crate::cli::talk::{NoteStyle, Run, Screen};
use crate::cli::terminal::Terminals;
use crate::domain::run_status::RunStatus;

/// The printer of a run.
#[derive(Debug)]
pub(super) struct RunPrinter {
    output: Output,
    terminals: Terminals,
    screen: Screen,
}

impl RunPrinter {
    pub(super) fn new(output: Output) -> Self {
        let terminals = Terminals::detect();
        Self { output, terminals, screen: Screen::new(NoteStyle::of_progress(terminals)) }
    }

    /// Returns true if the answer is shown while it streams. A program gets only the complete answer,
    /// because a streamed text can be replaced.
    fn is_live(&self) -> bool {
        self.output == Output::Text && self.terminals.output
    }

    pub(super) fn show(&mut self, update: &Update) {
        match (self.output, update) {
            (Output::Jsonl, Update::Event(json)) => output::print_json(json),
            _ if self.is_live() => self.screen.show(update),
            _ => {}
        }
    }

    /// Prints the result of the run, and its problem if it has one.
    pub(super) fn end(&mut self, run: &Run, session: &str) {
        self.screen.end_line();
        match self.output {
            Output::Json => output::print_json(&run.whole.to_string()),
            Output::Text if !self.terminals.output => {
                if let Some(text) = run.output_text.as_deref().filter(|text| !text.is_empty()) {
                    output::print_data(text);
                }
            }
            Output::Text | Output::Jsonl => {}
        }
        if let Some(problem) = run.problem() {
            output::print_error(&format!("twostep: {problem}"));
        }
        if run.status == RunStatus::RequiresAction {
            for call in &run.pending {
                output::print_error(&format!("twostep: {}", call.line()));
            }
            output::print_error(&format!("Decide with: twostep chat --session {session}"));
        }
    }
}
