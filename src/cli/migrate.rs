//! `twostep migrate`.

use anyhow::Context as _;
use clap::Args;

use super::output;
use crate::app::open_database;
use crate::config::DatabaseArgs;
use crate::store::{self, MIGRATIONS, PoolRole};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    database: DatabaseArgs,
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let (options, embedded) = open_database(self.database.into_database()?).await?;
        let pool = store::pool(&options, PoolRole::Api);
        store::migrate(&pool)
            .await
            .context("the schema cannot be brought up to date")?;
        pool.close().await;
        if let Some(embedded) = embedded {
            embedded.stop().await?;
        }
        let newest = MIGRATIONS
            .iter()
            .map(|migration| migration.version)
            .max()
            .unwrap_or(0);
        output::say(&format!("the schema is at version {newest}"));
        Ok(())
    }
}
