//! The files that are read again on SIGHUP.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use super::permissions::read_rules;
use super::session::{read_agents, read_prices};
use super::settings::ReloadableFiles;
use crate::domain::permission::Rule;
use crate::domain::price::Prices;
use crate::service::OperatorAgents;

/// The present content of the files. Absent for options that are not set.
#[derive(Debug)]
pub struct FileContents {
    /// The agents.
    pub agents: Option<anyhow::Result<OperatorAgents>>,
    /// The prices.
    pub prices: Option<anyhow::Result<Prices>>,
    /// The permission rules.
    pub permission_rules: Option<anyhow::Result<Vec<Rule>>>,
}

impl ReloadableFiles {
    /// Reads the files, with the checks of the start.
    pub fn read(&self) -> FileContents {
        FileContents {
            agents: self.agents.as_deref().map(|path| read_again(path, read_agents)),
            prices: self.prices.as_deref().map(|path| {
                read_again(path, |path| read_prices(Some(path), self.provider_prices.clone()))
            }),
            permission_rules: self
                .permission_rules
                .as_deref()
                .map(|path| read_again(path, read_rules)),
        }
    }
}

/// Reads a file or a folder. The pipe that a shell opened for the start has nothing more to read, and
/// reading it would never end.
fn read_again<T>(path: &Path, read: impl FnOnce(&Path) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    let is_readable = metadata.is_file() || metadata.is_dir();
    ensure!(is_readable, "{} is not a regular file, so it is not read again", path.display());
    read(path)
}
