//! Servers of tools, as those who run the service see them.

use super::circuit::Circuit;

/// How a call of a tool of a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedCall {
    /// With a result.
    Answered,
    /// With an error that the server told.
    Failed,
    /// Not in time.
    TimedOut,
    /// With a connection that closed, or with an answer that is none.
    NoResponse,
    /// Before it began: the server is away, or left alone.
    Withheld,
}

impl ServedCall {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Answered, Self::Failed, Self::TimedOut, Self::NoResponse, Self::Withheld];

    /// The word in the figures.
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

/// How a server of tools is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServerReport {
    /// The operator's name of it.
    pub name: String,
    /// Whether there is a connection.
    pub is_connected: bool,
    /// Whether it is asked.
    pub circuit: Circuit,
    /// How many tools it has.
    pub tools: usize,
    /// How often its list of tools was another than before.
    pub list_changes: u64,
    /// Calls, by how they ended.
    pub calls: Vec<(ServedCall, u64)>,
}
