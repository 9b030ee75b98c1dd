//! Agents that are no tenant's: those of the operator, from files, and those of the service itself.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde_json::value::{RawValue, to_raw_value};

use super::profile::{AgentProfile, MAX_PROFILE};
use crate::domain::agent::{AgentName, AgentSource, BadAgent};
use crate::http::error::ApiError;
use crate::http::extract::json_body::parse;

/// What the service itself knows, each with its system prompt.
const BUILTIN: [(&str, &str, &str); 5] = [
    ("coder", include_str!("builtin/coder.json"), include_str!("builtin/coder.md")),
    ("course", include_str!("builtin/course.json"), include_str!("builtin/course.md")),
    ("general", include_str!("builtin/general.json"), include_str!("builtin/general.md")),
    ("researcher", include_str!("builtin/researcher.json"), include_str!("builtin/researcher.md")),
    ("weather", include_str!("builtin/weather.json"), include_str!("builtin/weather.md")),
];

/// An agent that is no tenant's.
#[derive(Debug, Clone)]
pub(super) struct OurAgent {
    pub(super) source: AgentSource,
    pub(super) version: i32,
    pub(super) description: Option<String>,
    /// What it says, in the form of requests.
    pub(super) profile: Box<RawValue>,
}

/// The agents of the operator, by their names.
#[derive(Debug, Clone, Default)]
pub struct OperatorAgents(Arc<BTreeMap<AgentName, OurAgent>>);

/// Why the files of agents cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadAgentFile {
    /// The folder cannot be read.
    #[error("the folder cannot be read: {0}")]
    Folder(io::Error),
    /// A file cannot be read.
    #[error("{file} cannot be read: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why not.
        error: io::Error,
    },
    /// A file has the name of no agent.
    #[error("{file} is no agent: {error}")]
    Name {
        /// The file.
        file: String,
        /// Why not.
        error: BadAgent,
    },
    /// A file is nothing that belongs here.
    #[error("{0} is neither the .json of an agent, nor the .md of one that has a .json")]
    Stray(String),
    /// What a file says is wrong.
    #[error("{file} is not valid: {problem}")]
    Content {
        /// The file.
        file: String,
        /// The member, and what is wrong with it.
        problem: String,
    },
}

/// The agent of this name that is no tenant's, if there is one.
pub(super) fn find<'a>(operators: &'a OperatorAgents, name: &AgentName) -> Option<&'a OurAgent> {
    operators.0.get(name).or_else(|| builtin().get(name))
}

/// All agents that are no tenant's.
pub(super) fn all(operators: &OperatorAgents) -> impl Iterator<Item = (&AgentName, &OurAgent)> {
    let hidden = |name: &AgentName| operators.0.contains_key(name);
    let builtin = builtin().iter().filter(move |(name, _)| !hidden(name));
    operators.0.iter().chain(builtin)
}

fn builtin() -> &'static BTreeMap<AgentName, OurAgent> {
    static ALL: LazyLock<BTreeMap<AgentName, OurAgent>> = LazyLock::new(|| {
        BUILTIN
            .into_iter()
            .filter_map(|(name, json, prompt)| {
                let agent = read(json.as_bytes(), Some(prompt), AgentSource::Builtin).ok()?;
                Some((name.parse().ok()?, agent))
            })
            .collect()
    });
    &ALL
}

/// An agent as a file has it: a profile, and its `version`, which is 1 where it says none. The
/// prompt of a file beside it is its own, unless it has one.
fn read(json: &[u8], prompt: Option<&str>, source: AgentSource) -> Result<OurAgent, ApiError> {
    let mut members: BTreeMap<String, Box<RawValue>> = parse(json)?;
    let version = match members.remove("version").map(|version| version.get().parse::<i32>()) {
        None => 1,
        Some(Ok(version)) if version > 0 => version,
        Some(_) => return Err(ApiError::field("/version", "is not a whole number from 1")),
    };
    let broken = |error: serde_json::Error| ApiError::Internal(error.to_string());
    if let Some(prompt) = prompt {
        if members.contains_key("system") {
            return Err(ApiError::field("/system", "is in a file of its own as well"));
        }
        members.insert("system".to_owned(), to_raw_value(prompt.trim_end()).map_err(broken)?);
    }
    let text = serde_json::to_vec(&members).map_err(broken)?;
    let profile: AgentProfile = parse(&text)?;
    profile.check()?;
    let text = profile.text()?;
    Ok(OurAgent { source, version, description: profile.description, profile: text })
}

impl OperatorAgents {
    /// Reads the agents of a folder: `NAME.json`, and `NAME.md` where the prompt has a file of its
    /// own. What begins with a dot is somebody else's.
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
                _ => return Err(BadAgentFile::Stray(file)),
            };
        }
        let mut agents = BTreeMap::new();
        for (stem, path) in jsons {
            let file = file_name(&path);
            let name: AgentName =
                stem.parse().map_err(|error| BadAgentFile::Name { file: file.clone(), error })?;
            let prompt = prompts.remove(&stem).map(|path| text(&path)).transpose()?;
            let json = text(&path)?;
            let agent = read(json.as_bytes(), prompt.as_deref(), AgentSource::Operator)
                .map_err(|error| BadAgentFile::Content { file, problem: problem(error) })?;
            agents.insert(name, agent);
        }
        match prompts.into_values().next() {
            Some(stray) => Err(BadAgentFile::Stray(file_name(&stray))),
            None => Ok(Self(Arc::new(agents))),
        }
    }

    /// The names and the profiles.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&AgentName, &OurAgent)> {
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

/// What is wrong, for the operator.
pub(super) fn problem(error: ApiError) -> String {
    if let ApiError::Validation(errors) = error {
        let told = errors.iter().map(|error| format!("{} {}", error.pointer, error.message));
        return told.collect::<Vec<_>>().join("; ").trim_start().to_owned();
    }
    if let ApiError::BadJson(cause) = error {
        return format!("it is not JSON: {cause}");
    }
    error.to_string()
}
