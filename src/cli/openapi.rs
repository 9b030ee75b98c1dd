//! `twostep openapi`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;

use super::output;
use crate::http::document;

#[derive(Debug, Args)]
pub(super) struct Command {
    /// Compare the document with this file; the exit status is 1 if they differ
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

impl Command {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let document = document().to_pretty_json()?;
        let Some(path) = self.check else {
            output::print_json(&document);
            return Ok(());
        };
        let file = fs::read_to_string(&path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        if file.trim_end() != document {
            bail!("{} differs from the document of the handlers; regenerate it", path.display());
        }
        Ok(())
    }
}
