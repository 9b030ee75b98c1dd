//! The findings of a verification.

use crate::domain::verification::{Finding, Invariant, Location};

/// The findings, in the order of detection.
#[derive(Debug)]
pub(super) struct Report {
    session: Location,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    /// Returns a report without findings.
    pub(super) const fn new(session: Location) -> Self {
        Self { session, findings: Vec::new() }
    }

    pub(super) fn add(&mut self, invariant: Invariant, place: Location, detail: impl Into<String>) {
        self.findings.push(Finding { invariant, place, detail: detail.into() });
    }

    /// The invariant under which findings of unreadable rows are filed.
    pub(super) fn session(&self) -> Location {
        self.session.clone()
    }
}
