//! Status of tool servers (MCP), as reported to operators.

use super::circuit::Circuit;

/// The outcome of a call to a tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedCall {
    /// A result.
    Answered,
    /// An error that the server returned.
    Failed,
    /// A timeout.
    TimedOut,
    /// A closed connection or an invalid response.
    NoResponse,
    /// Not sent: the server is unreachable or its circuit breaker is open.
    Withheld,
}

impl ServedCall {
    /// All outcomes.
    pub const ALL: [Self; 5] =
        [Self::Answered, Self::Failed, Self::TimedOut, Self::NoResponse, Self::Withheld];

    /// The label value in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::NoResponse => "no_response",
            Self::Withheld => "withheld",
        }
    }
}

/// The status of a tool server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServerReport {
    /// The name that the operator gave it.
    pub name: String,
    /// True if a connection is open.
    pub is_connected: bool,
    /// The state of the circuit breaker.
    pub circuit: Circuit,
    /// Number of tools.
    pub tools: usize,
    /// Number of changes of its tool list.
    pub list_changes: u64,
    /// Number of calls by outcome.
    pub calls: Vec<(ServedCall, u64)>,
}
