//! What the operator says of a server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;

/// A server of tools.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// A part of the names of its tools.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// Whether it is believed what it says of its tools, such as that they only read.
    pub is_trusted: bool,
    /// How long a call may take.
    pub timeout: Duration,
    /// Those of its tools that there are to be; all of them when absent. By its own names.
    pub only: Option<Vec<String>>,
    /// Tools that the service asks itself, and the model never sees.
    pub withheld: Vec<String>,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Reach {
    /// By the standard streams of a program, which the service starts.
    Program(Program),
    /// By streamable HTTP.
    Http {
        /// Where it is.
        url: Url,
        /// What is sent with every request.
        headers: HeaderMap,
    },
}

/// A program that is a server of tools.
#[derive(Clone)]
pub struct Program {
    /// Its path, or its name in the `PATH` of `env`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// All of its environment.
    pub env: BTreeMap<String, String>,
    /// Where it works; the root folder when absent.
    pub folder: Option<PathBuf>,
}

// Neither shows what may be secret.

impl std::fmt::Debug for Reach {
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
