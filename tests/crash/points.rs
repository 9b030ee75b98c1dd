//! The places where a crash is interesting.

use crate::hold::Commit;

/// A place, and how to get there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// The number of the point.
    pub(crate) point: &'static str,
    pub(crate) place: Place,
    /// The kind of conversation that leads there.
    pub(crate) kind: &'static str,
    /// Whether all kinds of faults are tried.
    pub(crate) is_bold: bool,
}

/// Where a process is caught.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// At a failpoint, when it is reached for the n-th time.
    Code(&'static str, u32),
    /// In a commit.
    Commit(Commit),
    /// In the commit of a second message's claim.
    QueuedClaim,
    /// In the commit of a takeover.
    Sweep,
    /// After it was told to stop.
    Drain,
    /// In a migration.
    Migration,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        match self.place {
            Place::Code(name, nth) => format!("{} {name}@{nth} {}", self.point, self.kind),
            Place::Commit(commit) => {
                format!("{} commit of {} {}", self.point, commit.table, self.kind)
            }
            Place::QueuedClaim => format!("{} commit of a claim", self.point),
            Place::Sweep => format!("{} commit of a takeover", self.point),
            Place::Drain => format!("{} draining", self.point),
            Place::Migration => format!("{} migration", self.point),
        }
    }
}

const fn code(point: &'static str, name: &'static str, nth: u32, kind: &'static str) -> Case {
    Case { point, place: Place::Code(name, nth), kind, is_bold: false }
}

const fn bold(point: &'static str, name: &'static str, nth: u32, kind: &'static str) -> Case {
    Case { is_bold: true, ..code(point, name, nth, kind) }
}

const fn commit(
    point: &'static str,
    table: &'static str,
    on: &'static str,
    when: &'static str,
    kind: &'static str,
) -> Case {
    Case { point, place: Place::Commit(Commit { table, on, when }), kind, is_bold: false }
}

const fn special(point: &'static str, place: Place, kind: &'static str) -> Case {
    Case { point, place, kind, is_bold: false }
}

/// The claim of a message that waited.
pub(crate) const QUEUED_CLAIM: Commit = Commit {
    table: "runs",
    on: "UPDATE",
    when: "OLD.status = 'queued' AND NEW.status = 'running'",
};

/// A takeover.
pub(crate) const TAKEOVER: Commit = Commit {
    table: "runs",
    on: "UPDATE",
    when: "OLD.status = 'running' AND NEW.attempt > OLD.attempt",
};

/// All that can be reached.
pub(crate) const CASES: [Case; 40] = [
    code("K01", "post-read", 1, "effect"),
    commit("K02", "runs", "INSERT", "true", "effect"),
    bold("K03", "before-reply", 1, "effect"),
    code("K04", "message-stored", 1, "effect"),
    special("K05", Place::QueuedClaim, "effect"),
    bold("K06", "claimed", 1, "effect"),
    code("K07", "request-sent", 1, "effect"),
    bold("K08", "in-reply", 5, "say"),
    code("K09", "in-reply", 5, "input"),
    bold("K10", "reply-read", 1, "effect"),
    commit("K11", "tool_calls", "INSERT", "NEW.position = 1", "effect"),
    bold("K12", "call-started", 1, "effect"),
    code("K12", "call-started", 1, "write"),
    bold("K13", "call-running", 1, "effect"),
    code("K14", "file-written", 1, "write"),
    bold("K15", "call-ended", 1, "effect"),
    code("K15", "call-ended", 1, "write"),
    code("K15", "call-ended", 3, "mixed"),
    code("K16", "some-recorded", 2, "look"),
    bold("K17", "results-ready", 1, "mixed"),
    commit(
        "K18",
        "messages",
        "INSERT",
        "NEW.role = 'user' AND NEW.content::text LIKE '%tool_result%'",
        "mixed",
    ),
    code("K19", "results-stored", 1, "rounds"),
    bold("K20", "suspended", 1, "ask"),
    commit("K20", "runs", "UPDATE", "NEW.status = 'requires_action'", "ask"),
    code("K21", "decided", 1, "ask"),
    commit(
        "K21",
        "tool_calls",
        "UPDATE",
        "NEW.decision IS NOT NULL AND OLD.decision IS NULL",
        "ask",
    ),
    commit("K22", "runs", "UPDATE", "NEW.status = 'completed'", "effect"),
    code("K23", "settled", 1, "effect"),
    bold("K24", "child-ended", 1, "tasks"),
    code("K24", "child-ended", 2, "tasks"),
    code("K24", "call-started", 1, "tasks"),
    commit("K24", "sessions", "INSERT", "NEW.parent_session_id IS NOT NULL", "tasks"),
    commit("K24", "events", "INSERT", "NEW.type = 'session.thread_event'", "tasks"),
    special("K26", Place::Sweep, "slow"),
    code("K27", "compacting", 1, "long"),
    commit("K27", "compactions", "INSERT", "true", "long"),
    special("K28", Place::Drain, "slow"),
    special("K29", Place::Migration, "effect"),
    code("K30", "step-stored", 3, "rounds"),
    commit("K30", "events", "INSERT", "NEW.type = 'agent.tool_result'", "effect"),
];

/// Points of parts that the service does not have yet.
pub(crate) const MISSING: [(&str, &str); 1] = [("K25", "a call of an MCP server is under way")];
