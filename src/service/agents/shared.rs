//! Shared agents, which all tenants have: those of the operator, from files, and those of the
//! service itself.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde_json::value::{RawValue, to_raw_value};

use super::profile::{AgentProfile, MAX_PROFILE};
use super::shared_agent::{OperatorAgents, SharedAgent};
use crate::domain::agent::{AgentName, AgentSource, BadAgent};
use crate::service::error::Error;
use crate::service::json::parse;

/// An agent of the service itself.
struct BuiltinAgent {
    name: &'static str,
    profile: &'static str,
    prompt: &'static str,
}

macro_rules! builtin {
    ($name:literal) => {
        BuiltinAgent {
            name: $name,
            profile: include_str!(concat!("builtin/", $name, ".json")),
            prompt: include_str!(concat!("builtin/", $name, ".md")),
        }
    };
}

const BUILTIN: [BuiltinAgent; 5] = [
    builtin!("coder"),
    builtin!("course"),
    builtin!("general"),
    builtin!("researcher"),
    builtin!("weather"),
];

/// A folder of agent files that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadAgentFile {
    /// The folder cannot be read.
    #[error("the folder cannot be read: {0}")]
    Folder(io::Error),
    /// A file cannot be read.
    #[error("{file} cannot be read: {error}")]
    Unreadable {
        /// The name of the file.
        file: String,
        /// The cause.
        error: io::Error,
    },
    /// The name of a file is not the name of an agent.
    #[error("{file} does not name an agent: {error}")]
    Name {
        /// The name of the file.
        file: String,
        /// The cause.
        error: BadAgent,
    },
    /// A file is neither a profile nor a prompt.
    #[error("{0} is neither the .json of an agent nor the .md of an agent that has a .json")]
    UnexpectedFile(String),
    /// The content of a file is not valid.
    #[error("{file} is not valid: {problem}")]
    Content {
        /// The name of the file.
        file: String,
        /// The member and the problem with it.
        problem: String,
    },
}

/// Finds a shared agent by name.
pub(super) fn find<'a>(operators: &'a OperatorAgents, name: &AgentName) -> Option<&'a SharedAgent> {
    operators.0.get(name).or_else(|| builtin().get(name))
}

/// All shared agents. An agent of the operator hides a built-in one of the same name.
pub(super) fn all(operators: &OperatorAgents) -> impl Iterator<Item = (&AgentName, &SharedAgent)> {
    let is_hidden = |name: &AgentName| operators.0.contains_key(name);
    let builtin = builtin().iter().filter(move |(name, _)| !is_hidden(name));
    operators.0.iter().chain(builtin)
}

fn builtin() -> &'static BTreeMap<AgentName, SharedAgent> {
    static ALL: LazyLock<BTreeMap<AgentName, SharedAgent>> = LazyLock::new(|| {
        BUILTIN
            .into_iter()
            .filter_map(|BuiltinAgent { name, profile, prompt }| {
                let agent = read(profile.as_bytes(), Some(prompt), AgentSource::Builtin).ok()?;
                Some((name.parse().ok()?, agent))
            })
            .collect()
    });
    &ALL
}

/// Parses the file of an agent: a profile with an optional `version`, 1 by default. The system
/// prompt is in the profile or in a file of its own.
fn read(json: &[u8], prompt: Option<&str>, source: AgentSource) -> Result<SharedAgent, Error> {
    let mut members: BTreeMap<String, Box<RawValue>> = parse(json)?;
    let version = match members.remove("version").map(|version| version.get().parse::<i32>()) {
        None => 1,
        Some(Ok(version)) if version > 0 => version,
        Some(_) => return Err(Error::field("/version", "is not a whole number from 1")),
    };
    if let Some(prompt) = prompt {
        if members.contains_key("system") {
            return Err(Error::field("/system", "is also in a file of its own"));
        }
        let prompt = to_raw_value(prompt.trim_end()).map_err(Error::internal)?;
        members.insert("system".to_owned(), prompt);
    }
    let text = serde_json::to_vec(&members).map_err(Error::internal)?;
    let profile: AgentProfile = parse(&text)?;
    profile.check()?;
    let text = profile.text()?;
    Ok(SharedAgent { source, version, description: profile.description, profile: text })
}

impl OperatorAgents {
    /// Reads the agents of a folder: `NAME.json`, and optionally `NAME.md` with the system prompt.
    /// Hidden files are ignored.
    pub fn read(folder: &Path) -> Result<Self, BadAgentFile> {
        let mut jsons = BTreeMap::new();
        let mut prompts = BTreeMap::new();
        for entry in fs::read_dir(folder).map_err(BadAgentFile::Folder)? {
            let path = entry.map_err(BadAgentFile::Folder)?.path();
            let file = file_name(&path);
            if file.starts_with('.') {
                continue;
            }
            match file.rsplit_once('.') {
                Some((stem, "json")) => jsons.insert(stem.to_owned(), path),
                Some((stem, "md")) => prompts.insert(stem.to_owned(), path),
                _ => return Err(BadAgentFile::UnexpectedFile(file)),
            };
        }
        let mut agents = BTreeMap::new();
        for (stem, path) in jsons {
            let file = file_name(&path);
            let name: AgentName =
                stem.parse().map_err(|error| BadAgentFile::Name { file: file.clone(), error })?;
            let prompt = prompts.remove(&stem).map(|path| text(&path)).transpose()?;
            let json = text(&path)?;
            let agent = read(json.as_bytes(), prompt.as_deref(), AgentSource::Operator).map_err(
                |error| BadAgentFile::Content { file, problem: describe_problem(error) },
            )?;
            agents.insert(name, agent);
        }
        match prompts.into_values().next() {
            Some(unexpected) => Err(BadAgentFile::UnexpectedFile(file_name(&unexpected))),
            None => Ok(Self(Arc::new(agents))),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&AgentName, &SharedAgent)> {
        self.0.iter()
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn text(path: &PathBuf) -> Result<String, BadAgentFile> {
    let unreadable = |error| BadAgentFile::Unreadable { file: file_name(path), error };
    let size = fs::metadata(path).map_err(unreadable)?.len();
    if size > MAX_PROFILE as u64 {
        let problem = format!("it is larger than {MAX_PROFILE} bytes");
        return Err(BadAgentFile::Content { file: file_name(path), problem });
    }
    fs::read_to_string(path).map_err(unreadable)
}

/// The problem with a file, for the operator.
pub(super) fn describe_problem(error: Error) -> String {
    if let Error::Validation(errors) = error {
        let problems = errors.iter().map(|error| format!("{} {}", error.pointer, error.message));
        return problems.collect::<Vec<_>>().join("; ").trim_start().to_owned();
    }
    if let Error::BadJson(cause) = error {
        return format!("it is not JSON: {cause}");
    }
    error.to_string()
}
