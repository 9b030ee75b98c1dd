//! The points at which faults are injected.

use crate::hold::Commit;

/// A point, and the conversation that reaches it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// The name of the point.
    pub(crate) point: &'static str,
    pub(crate) location: Location,
    /// The kind of the conversation.
    pub(crate) kind: &'static str,
    /// Whether the point is also tested with a pause and with a crash of Postgres.
    pub(crate) is_important: bool,
}

/// The location of a point.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Location {
    /// At a failpoint, when it is reached for the n-th time.
    Code(&'static str, u32),
    /// During a commit.
    Commit(Commit),
    /// During the commit that claims the run of a second, queued message.
    QueuedClaim,
    /// During the commit of a takeover.
    Sweep,
    /// After the process received a signal to shut down.
    Drain,
    /// During a migration.
    Migration,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        match self.location {
            Location::Code(name, nth) => format!("{} {name}@{nth} {}", self.point, self.kind),
            Location::Commit(commit) => {
                format!("{} commit of {} {}", self.point, commit.table, self.kind)
            }
            Location::QueuedClaim => format!("{} commit of a claim", self.point),
            Location::Sweep => format!("{} commit of a takeover", self.point),
            Location::Drain => format!("{} draining", self.point),
            Location::Migration => format!("{} migration", self.point),
        }
    }
}

const fn code(point: &'static str, name: &'static str, nth: u32, kind: &'static str) -> Case {
    Case { point, location: Location::Code(name, nth), kind, is_important: false }
}

const fn important(point: &'static str, name: &'static str, nth: u32, kind: &'static str) -> Case {
    Case { is_important: true, ..code(point, name, nth, kind) }
}

const fn commit(
    point: &'static str,
    table: &'static str,
    on: &'static str,
    when: &'static str,
    kind: &'static str,
) -> Case {
    Case {
        point,
        location: Location::Commit(Commit { table, on, when }),
        kind,
        is_important: false,
    }
}

const fn special(point: &'static str, location: Location, kind: &'static str) -> Case {
    Case { point, location, kind, is_important: false }
}

/// The claim of a queued run.
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

/// All points that can be reached.
pub(crate) const CASES: [Case; 42] = [
    code("K01", "post-read", 1, "effect"),
    commit("K02", "runs", "INSERT", "true", "effect"),
    important("K03", "before-reply", 1, "effect"),
    code("K04", "message-stored", 1, "effect"),
    special("K05", Location::QueuedClaim, "effect"),
    important("K06", "claimed", 1, "effect"),
    code("K07", "request-sent", 1, "effect"),
    important("K08", "in-reply", 5, "say"),
    code("K09", "in-reply", 5, "input"),
    important("K10", "reply-read", 1, "effect"),
    commit("K11", "tool_calls", "INSERT", "NEW.position = 1", "effect"),
    important("K12", "call-started", 1, "effect"),
    code("K12", "call-started", 1, "write"),
    important("K13", "call-running", 1, "effect"),
    code("K14", "file-written", 1, "write"),
    important("K15", "call-ended", 1, "effect"),
    code("K15", "call-ended", 1, "write"),
    code("K15", "call-ended", 3, "mixed"),
    code("K16", "some-recorded", 2, "look"),
    important("K17", "results-ready", 1, "mixed"),
    commit(
        "K18",
        "messages",
        "INSERT",
        "NEW.role = 'user' AND NEW.content::text LIKE '%tool_result%'",
        "mixed",
    ),
    code("K19", "results-stored", 1, "rounds"),
    important("K20", "suspended", 1, "ask"),
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
    important("K24", "child-ended", 1, "tasks"),
    code("K24", "child-ended", 2, "tasks"),
    code("K24", "call-started", 1, "tasks"),
    commit("K24", "sessions", "INSERT", "NEW.parent_session_id IS NOT NULL", "tasks"),
    commit("K24", "events", "INSERT", "NEW.type = 'session.thread_event'", "tasks"),
    special("K26", Location::Sweep, "slow"),
    code("K27", "compacting", 1, "long"),
    commit("K27", "compactions", "INSERT", "true", "long"),
    special("K28", Location::Drain, "slow"),
    special("K29", Location::Migration, "effect"),
    code("K30", "step-stored", 3, "rounds"),
    commit("K30", "events", "INSERT", "NEW.type = 'agent.tool_result'", "effect"),
    important("K31", "round-ready", 1, "quick"),
    commit("K31", "tool_calls", "INSERT", "NEW.state = 'done'", "quick"),
];

/// Points that are not implemented yet.
pub(crate) const MISSING: [(&str, &str); 1] = [("K25", "a call of an MCP server is under way")];
