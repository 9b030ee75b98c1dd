//! The state of a run that all its parts work on.

use super::context::RunContext;
use super::progress::Progress;
use super::slot::Slot;
use super::step_writer::StepWriter;

/// The state of a run that all its parts work on.
#[derive(Debug)]
pub(in crate::worker) struct RunState<'a> {
    pub(in crate::worker) run: &'a RunContext<'a>,
    pub(in crate::worker) slot: &'a mut Slot,
    pub(in crate::worker) progress: Progress<'a>,
    pub(in crate::worker) writer: StepWriter<'a>,
}

impl<'a> RunState<'a> {
    pub(in crate::worker) fn new(run: &'a RunContext<'a>, slot: &'a mut Slot) -> Self {
        Self { run, slot, progress: Progress::new(run), writer: StepWriter::new(run) }
    }
}
