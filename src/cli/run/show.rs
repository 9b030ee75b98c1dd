//! What of a run is printed.

use super::Output;
use crate::cli::client::Came;
use crate::cli::output;
use crate::cli::talk::{Notes, Run, Screen};
use crate::cli::terminal::{Terminals, safe_json};
use crate::domain::run::RunStatus;

/// How a run is printed.
#[derive(Debug)]
pub(super) struct Show {
    output: Output,
    terminals: Terminals,
    screen: Screen,
}

impl Show {
    pub(super) fn new(output: Output) -> Self {
        let terminals = Terminals::look();
        Self { output, terminals, screen: Screen::new(Notes::of_progress(terminals)) }
    }

    /// Whether the answer is shown as it comes. What a program reads must not be taken back, so it
    /// gets the answer when it is whole.
    fn is_live(&self) -> bool {
        self.output == Output::Text && self.terminals.output
    }

    pub(super) fn see(&mut self, came: &Came) {
        match (self.output, came) {
            (Output::Jsonl, Came::Event(json)) => self.json(json),
            _ if self.is_live() => self.screen.see(came),
            _ => {}
        }
    }

    fn json(&self, json: &str) {
        output::say(&if self.terminals.output { safe_json(json) } else { json.into() });
    }

    /// Prints what is known at the end, and says what is wrong.
    pub(super) fn end(&mut self, run: &Run, session: &str) {
        self.screen.end_line();
        match self.output {
            Output::Json => self.json(&run.whole.to_string()),
            Output::Text if !self.terminals.output => {
                if let Some(text) = run.output_text.as_deref().filter(|text| !text.is_empty()) {
                    output::say(text);
                }
            }
            Output::Text | Output::Jsonl => {}
        }
        if let Some(trouble) = run.trouble() {
            output::complain(&format!("twostep: {trouble}"));
        }
        if run.status == RunStatus::RequiresAction {
            for call in &run.pending {
                output::complain(&format!("twostep: {}", call.line()));
            }
            output::complain(&format!("Decide with: twostep chat --session {session}"));
        }
    }
}
