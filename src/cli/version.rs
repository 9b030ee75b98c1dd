//! `twostep version`.

use clap::Args;
use serde_json::json;

use super::output;
use crate::store::MIGRATIONS;

#[derive(Debug, Args)]
pub(super) struct Command {
    /// Print one JSON object that includes the version of the database schema
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(super) fn run(&self) {
        let version = env!("CARGO_PKG_VERSION");
        if !self.json {
            output::print_line(&format!("twostep {version}"));
            return;
        }
        let schema = MIGRATIONS.iter().map(|migration| migration.version).max();
        output::print_json(
            &json!({ "name": "twostep", "version": version, "schema": schema }).to_string(),
        );
    }
}
