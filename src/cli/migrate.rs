//! `twostep migrate`.

use clap::Args;

use super::output;
use crate::app::{bring_up_to_date_and_grant, open_database};
use crate::config::DatabaseArgs;
use crate::store::schema::SchemaVersion;

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    database: DatabaseArgs,
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let (options, private_postgres) = open_database(self.database.into_database()?).await?;
        let (version, granted) = bring_up_to_date_and_grant(options).await?;
        for granted in granted {
            output::print_line(&format!("granted: {granted}"));
        }
        if let Some(private_postgres) = private_postgres {
            private_postgres.stop().await?;
        }
        let SchemaVersion { found, known } = version;
        output::print_line(&if version.is_newer() {
            format!(
                "the schema is at version {found}, newer than {known} of this program and compatible \
                 with it"
            )
        } else {
            format!("the schema is at version {found}")
        });
        Ok(())
    }
}
