//! The rules that make the service safe. The tests remove each of them to show that the search finds
//! the violation.

/// The rules that are in force.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule that can be removed")]
pub(super) struct Rules {
    /// Every step names its attempt and its worker, and is refused if they are not the latest.
    pub(super) steps_are_fenced: bool,
    /// Steps with results are fenced as well.
    pub(super) results_are_fenced: bool,
    /// The start of a call with effects is committed before the call runs.
    pub(super) starts_are_recorded: bool,
    /// A reply and the ledger rows of its calls are one commit.
    pub(super) plans_come_with_the_reply: bool,
    /// Only calls without effects run before their reply is stored.
    pub(super) early_calls_are_pure: bool,
    /// A call with effects that may have started is not run again.
    pub(super) effects_are_not_repeated: bool,
    /// Each claim of a run that its last worker did not release counts as a takeover.
    pub(super) takeovers_are_counted: bool,
    /// A worker that notices that it lost a lease takes back the takeover that this caused.
    pub(super) lost_leases_are_taken_back: bool,
    /// A committed step resets the count of takeovers.
    pub(super) progress_is_noticed: bool,
    /// A run waits until the one before it in its session has settled.
    pub(super) runs_wait_in_line: bool,
    /// A driver resumes from the stored messages.
    pub(super) drivers_resume: bool,
    /// A reply is stored after the results that its request contains.
    pub(super) replies_wait_for_results: bool,
    /// A run that is stopped answers its open calls.
    pub(super) open_calls_are_closed: bool,
    /// The lease of a stopped worker expires.
    pub(super) leases_end: bool,
}

impl Rules {
    /// All of them.
    pub(super) const ALL: Self = Self {
        steps_are_fenced: true,
        results_are_fenced: true,
        starts_are_recorded: true,
        plans_come_with_the_reply: true,
        early_calls_are_pure: true,
        effects_are_not_repeated: true,
        takeovers_are_counted: true,
        lost_leases_are_taken_back: true,
        progress_is_noticed: true,
        runs_wait_in_line: true,
        drivers_resume: true,
        replies_wait_for_results: true,
        open_calls_are_closed: true,
        leases_end: true,
    };
}
