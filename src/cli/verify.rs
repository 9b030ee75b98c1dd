//! `twostep verify`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use super::output;
use crate::app::connect;
use crate::config::{Database, DatabaseArgs};
use crate::domain::ids::SessionId;
use crate::domain::verification::{Checked, Finding, Verification};
use crate::store::roles::serve_all;
use crate::store::schema::check_schema;
use crate::store::verify::{check_named_sessions, list_sessions, session};
use private_postgres::Existing;

/// Number of session ids that are read at once.
const BATCH: i64 = 100;

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Check only this session
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
}

impl Command {
    /// Prints one line per violation. The exit status is 1 if there is one, and 2 if the check could
    /// not run.
    pub(super) async fn run(self) -> ExitCode {
        self.check().await.unwrap_or_else(|error| {
            output::print_error(&format!("twostep: {error:#}"));
            ExitCode::from(2)
        })
    }

    async fn check(self) -> anyhow::Result<ExitCode> {
        match self.database.into_database()? {
            Database::Server(options) => verify(&options, self.session).await,
            Database::Private(options) => {
                let existing = Existing::open(&options).await?;
                let verified = verify(&existing.connect_options(), self.session).await;
                existing.close().await?;
                verified
            }
        }
    }
}

/// The totals of the check.
#[derive(Debug, Default)]
struct Total {
    sessions: usize,
    broken: usize,
    findings: usize,
    checked: Checked,
}

impl Total {
    fn take(&mut self, verification: &Verification) {
        self.sessions += 1;
        self.checked += verification.checked;
        self.report(&verification.findings);
    }

    /// Prints the findings of one session.
    fn report(&mut self, findings: &[Finding]) {
        for finding in findings {
            // Tool call ids come from the model and may contain line breaks.
            output::print_line(&finding.to_string().replace(char::is_control, " "));
        }
        self.broken += usize::from(!findings.is_empty());
        self.findings += findings.len();
    }

    fn summary(&self) -> String {
        let Checked { messages, runs, calls, events } = self.checked;
        let rows = [(messages, "message"), (runs, "run"), (calls, "call"), (events, "event")]
            .map(|(number, noun)| count(number, noun))
            .join(", ");
        let found = match self.findings {
            0 => "no problems found".to_owned(),
            number => format!("{} in {}", count(number, "finding"), count(self.broken, "session")),
        };
        format!("{} checked ({rows}): {found}", count(self.sessions, "session"))
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

async fn verify(options: &PgConnectOptions, only: Option<SessionId>) -> anyhow::Result<ExitCode> {
    let options = options
        .clone()
        .application_name("twostep verify")
        .options([("default_transaction_read_only", "on"), ("lock_timeout", "5s")]);
    let mut conn = connect(&options).await?;
    check_schema(&mut conn).await?;
    serve_all(&mut conn).await?;
    let mut total = Total::default();
    if let Some(id) = only {
        let Some(verification) = session(&mut conn, None, id).await? else {
            bail!("session {id} does not exist");
        };
        total.take(&verification);
    } else {
        verify_all(&mut conn, &mut total).await?;
        find_rows_without_session(&mut conn, &mut total).await?;
    }
    conn.close().await?;
    output::print_line(&total.summary());
    Ok(if total.findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks one session after the other, each in a transaction of its own. So a large database needs
/// neither much memory nor a long snapshot that keeps vacuum from removing rows.
async fn verify_all(conn: &mut PgConnection, total: &mut Total) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let ids = list_sessions(conn, after, BATCH).await?;
        let Some(last) = ids.last() else { return Ok(()) };
        after = Some(*last);
        for id in ids {
            // A session that was deleted in the meantime is skipped.
            if let Some(verification) = session(conn, None, id).await? {
                total.take(&verification);
            }
        }
    }
}

/// Reports the rows of sessions that do not exist.
async fn find_rows_without_session(
    conn: &mut PgConnection,
    total: &mut Total,
) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let named = check_named_sessions(conn, after, BATCH).await?;
        for finding in &named.findings {
            total.report(std::slice::from_ref(finding));
        }
        let Some(last) = named.last else { return Ok(()) };
        after = Some(last);
    }
}
