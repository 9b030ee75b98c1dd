//! `twostep catalog`.

mod import;
mod progress;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use sqlx::PgConnection;

use super::database::with_database;
use super::output;
use super::table;
use crate::config::DatabaseArgs;
use crate::domain::course::most_like;
use crate::domain::ids::TenantId;
use crate::store::courses::{self, CourseSummary};
use crate::store::tenants;
use import::Import;

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Tenant that owns the courses
    #[arg(long, global = true, default_value = "default", value_name = "NAME")]
    tenant: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Import courses; a course replaces the one with the same title
    Import(Import),
    /// List the courses
    List {
        /// Print JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Remove a course with all its lessons
    Rm {
        /// Full title of the course
        title: String,
    },
}

impl Command {
    /// Runs the command. It may run while the service runs, also on the private database.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Self { database, tenant: name, action } = self;
        // All files are checked before anything is written.
        let files = match &action {
            Action::Import(import) => import.read().await?,
            Action::List { .. } | Action::Rm { .. } => Vec::new(),
        };
        with_database(database, "twostep catalog", async |conn| {
            let tenant = tenants::find(conn, &name).await?;
            let tenant = tenant.with_context(|| format!("tenant {name:?} does not exist"))?;
            match action {
                Action::Import(_) => import::store(conn, tenant, &files).await,
                Action::List { json } => show(&courses::list(conn, tenant).await?, json),
                Action::Rm { title } => remove(conn, tenant, &title).await,
            }
        })
        .await
    }
}

async fn remove(conn: &mut PgConnection, tenant: TenantId, title: &str) -> anyhow::Result<()> {
    if courses::remove(conn, tenant, title).await? {
        return Ok(());
    }
    let titles = courses::list_titles(conn, tenant).await?;
    let titles: Vec<&str> = titles.iter().map(|(_, title)| title.as_str()).collect();
    match most_like(title, titles.iter().copied()).and_then(|index| titles.get(index)) {
        Some(like) => bail!("course {title:?} does not exist; did you mean {like:?}?"),
        None => bail!("course {title:?} does not exist"),
    }
}

fn show(courses: &[CourseSummary], json: bool) -> anyhow::Result<()> {
    if courses.is_empty() {
        output::print_error("no courses");
    } else if json {
        for course in courses {
            output::print_json(&serde_json::to_string(course)?);
        }
    } else {
        let row = |course: &CourseSummary| {
            let CourseSummary { title, lessons, passages, imported_at } = course;
            [lessons.to_string(), passages.to_string(), format!("{imported_at:.0}"), title.clone()]
        };
        let rows: Vec<_> = courses.iter().map(row).collect();
        table::show(["LESSONS", "PASSAGES", "IMPORTED", "TITLE"], &rows);
    }
    Ok(())
}
