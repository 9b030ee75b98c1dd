//! `twostep budget`.

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use sqlx::PgConnection;

use super::database::with_database;
use super::output;
use crate::config::DatabaseArgs;
use crate::domain::budget::{Budget, Scope, Standing};
use crate::domain::ids::TenantId;
use crate::store::budgets::{self, list, remove, set};
use crate::store::tenants::find;

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Whose budgets
    #[arg(long, global = true, default_value = "default", value_name = "NAME")]
    tenant: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the budgets, and how much of them is spent or reserved
    List,
    /// Give a budget in place of the one before, as a whole: what is not named has no bound. What
    /// was spent before counts
    Set {
        /// For what time
        period: Period,
        #[command(flatten)]
        most: Most,
    },
    /// Take a budget away
    Remove {
        /// For what time
        period: Period,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Most {
    /// Input and output tokens
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
    tokens: Option<i64>,
    /// Micro-dollars, by the prices of the sessions
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
    cost: Option<i64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Period {
    /// Each day by UTC
    Day,
    /// All time
    Total,
}

impl From<Period> for budgets::Period {
    fn from(period: Period) -> Self {
        match period {
            Period::Day => Self::Day,
            Period::Total => Self::Total,
        }
    }
}

impl Command {
    /// Works while the service runs, on the private database too.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Self { database, tenant, action } = self;
        with_database(database, "twostep budget", async |conn| act(conn, &tenant, action).await)
            .await
    }
}

async fn act(conn: &mut PgConnection, tenant: &str, action: Action) -> anyhow::Result<()> {
    let Some(id) = find(conn, tenant).await? else { bail!("there is no tenant {tenant:?}") };
    match action {
        Action::List => {}
        Action::Set { period, most: Most { tokens, cost } } => {
            set(conn, id, period.into(), Budget { tokens, cost }).await?;
        }
        Action::Remove { period } => {
            if !remove(conn, id, period.into()).await? {
                bail!("there is no such budget");
            }
        }
    }
    show(conn, id).await
}

/// A line a budget.
async fn show(conn: &mut PgConnection, tenant: TenantId) -> anyhow::Result<()> {
    let standings = list(conn, tenant).await?;
    if standings.is_empty() {
        output::say("no budgets");
    }
    for standing in standings {
        output::say(&line(&standing));
    }
    Ok(())
}

fn line(standing: &Standing) -> String {
    let Standing { scope, budget, tokens, cost } = standing;
    let period = match scope {
        Scope::TenantDay => "day",
        Scope::TenantTotal | Scope::Session => "total",
    };
    let parts = [
        budget.tokens.map(|max| format!("{tokens} of {max} tokens")),
        budget.cost.map(|max| format!("{cost} of {max} micro-dollars")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{period}: {}", parts.join(", "))
}
