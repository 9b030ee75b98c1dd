//! The operator's settings for an MCP server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;

/// The settings of one MCP server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The name of the server, which is a part of the names of its tools.
    pub name: String,
    /// The transport.
    pub transport: ServerTransport,
    /// `true` if the server's hints on its tools are trusted, such as that they only read.
    pub is_trusted: bool,
    /// The timeout of a call.
    pub timeout: Duration,
    /// The tools to offer, by the names that the server gives them. All tools if absent.
    pub only: Option<Vec<String>>,
    /// Tools that only the service calls and that the model does not receive.
    pub withheld: Vec<String>,
}

/// The transport to a server.
#[derive(Clone)]
pub enum ServerTransport {
    /// The standard streams of a program that the service starts.
    Program(Program),
    /// Streamable HTTP.
    Http {
        /// The URL of the server.
        url: Url,
        /// Headers of every request.
        headers: HeaderMap,
    },
}

/// The ids of a user and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserIds {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// A local program that is an MCP server.
#[derive(Clone)]
pub struct Program {
    /// The path of the program, or its name in the `PATH` of `env`.
    pub command: String,
    /// The command line arguments.
    pub args: Vec<String>,
    /// The whole environment of the program.
    pub env: BTreeMap<String, String>,
    /// The working directory; `/` if absent.
    pub folder: Option<PathBuf>,
    /// The user that runs the program; that of the service if absent. Only root can choose one.
    pub user: Option<UserIds>,
}

// The `Debug` output omits values that can be secret.

impl std::fmt::Debug for ServerTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program(program) => program.fmt(f),
            Self::Http { url, .. } => {
                let place = url.origin().ascii_serialization();
                f.debug_struct("Http").field("place", &place).finish_non_exhaustive()
            }
        }
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("command", &self.command).finish_non_exhaustive()
    }
}
