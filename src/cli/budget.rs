//! `twostep budget`.

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use sqlx::PgConnection;

use super::database::with_database;
use super::output;
use crate::config::DatabaseArgs;
use crate::domain::budget::{Budget, BudgetUse, Scope};
use crate::domain::ids::TenantId;
use crate::store::budgets::{self, list, remove, set};
use crate::store::tenants::find;

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Tenant whose budgets are shown or changed
    #[arg(long, global = true, default_value = "default", value_name = "NAME")]
    tenant: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the budgets with the amounts spent and reserved
    List,
    /// Replace a budget. An omitted limit is unlimited. Earlier spending counts
    Set {
        /// Period of the budget
        period: Period,
        #[command(flatten)]
        limits: BudgetLimits,
    },
    /// Remove a budget
    Remove {
        /// Period of the budget
        period: Period,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct BudgetLimits {
    /// Maximum number of input and output tokens
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
    tokens: Option<i64>,
    /// Maximum cost in micro-dollars, by the prices of the sessions
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
    cost: Option<i64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Period {
    /// Each day (UTC)
    Day,
    /// All time, without a reset
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
    /// Runs the command. It may run while the service runs, also on the private database.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Self { database, tenant, action } = self;
        with_database(database, "twostep budget", async |conn| act(conn, &tenant, action).await)
            .await
    }
}

async fn act(conn: &mut PgConnection, tenant: &str, action: Action) -> anyhow::Result<()> {
    let Some(id) = find(conn, tenant).await? else { bail!("tenant {tenant:?} does not exist") };
    match action {
        Action::List => {}
        Action::Set { period, limits: BudgetLimits { tokens, cost } } => {
            set(conn, id, period.into(), Budget { tokens, cost }).await?;
        }
        Action::Remove { period } => {
            if !remove(conn, id, period.into()).await? {
                bail!("the tenant has no such budget");
            }
        }
    }
    show(conn, id).await
}

/// Prints one line per budget.
async fn show(conn: &mut PgConnection, tenant: TenantId) -> anyhow::Result<()> {
    let uses = list(conn, tenant).await?;
    if uses.is_empty() {
        output::print_line("no budgets");
    }
    for budget_use in uses {
        output::print_line(&line(&budget_use));
    }
    Ok(())
}

fn line(budget_use: &BudgetUse) -> String {
    let BudgetUse { scope, budget, tokens, cost } = budget_use;
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
