//! `twostep migrate`.

use clap::Args;

use super::output;
use crate::app::{bring_up_to_date_and_grant, open_database};
use crate::config::DatabaseArgs;
use crate::store::MIGRATIONS;

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    database: DatabaseArgs,
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let (options, private_postgres) = open_database(self.database.into_database()?).await?;
        for granted in bring_up_to_date_and_grant(options).await? {
            output::print_line(&format!("granted: {granted}"));
        }
        if let Some(private_postgres) = private_postgres {
            private_postgres.stop().await?;
        }
        let newest = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
        output::print_line(&format!("the schema is at version {newest}"));
        Ok(())
    }
}
