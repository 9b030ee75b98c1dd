//! The time of the database by statement, from `pg_stat_statements`.

mod label;

use std::collections::BTreeMap;

use super::row::number;
pub(crate) use label::{SqlFile, label};

/// Statements with a smaller share of the time are added up.
const SMALLEST_SHARE: f64 = 0.01;

/// What one statement used.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Use {
    pub(crate) calls: f64,
    pub(crate) execution_ms: f64,
    pub(crate) planning_ms: f64,
    pub(crate) wal_bytes: f64,
}

/// A statement of `pg_stat_statements`.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) query: String,
    /// True for a statement inside another one, such as the check of a foreign key, whose time is
    /// also part of the outer statement.
    pub(crate) is_nested: bool,
    pub(crate) used: Use,
}

/// The statements of a number of turns of one server.
#[derive(Debug)]
pub(crate) struct Profile {
    /// The server and its load.
    pub(crate) name: String,
    pub(crate) turns: u32,
    pub(crate) statements: Vec<Statement>,
}

/// Formats the profiles as one Markdown table.
pub(crate) fn table(profiles: &[Profile], files: &[SqlFile]) -> Vec<String> {
    let mut lines = vec![
        "| statement | calls a turn | mean, ms | ms a turn | share | planning, ms a turn | WAL, kB a turn |"
            .to_owned(),
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |".to_owned(),
    ];
    for profile in profiles {
        lines.extend(profile.lines(files));
    }
    lines
}

impl Profile {
    fn lines(&self, files: &[SqlFile]) -> Vec<String> {
        let outer = by_label(self.statements.iter().filter(|it| !it.is_nested), files);
        let nested = by_label(self.statements.iter().filter(|it| it.is_nested), files);
        let mut all = Use::default();
        for (_, used) in &outer {
            all.add(used);
        }
        let mut lines = vec![self.line(&format!("**{}**", self.name), &all, &all)];
        let (large, small) = split(outer, all.execution_ms);
        for (label, used) in large {
            lines.push(self.line(&label, &used, &all));
        }
        let mut others = Use::default();
        for (_, used) in &small {
            others.add(used);
        }
        if !small.is_empty() {
            lines.push(self.line(&format!("{} others", small.len()), &others, &all));
        }
        let (large, _) = split(nested, all.execution_ms);
        for (label, used) in large {
            lines.push(self.line(&format!("part of the above: {label}"), &used, &all));
        }
        lines
    }

    fn line(&self, name: &str, used: &Use, all: &Use) -> String {
        let turns = f64::from(self.turns);
        format!(
            "| {name} | {} | {} | {} | {:.0}% | {} | {} |",
            number(used.calls / turns),
            number(used.execution_ms / used.calls),
            number(used.execution_ms / turns),
            used.execution_ms / all.execution_ms * 100.0,
            number(used.planning_ms / turns),
            number(used.wal_bytes / 1000.0 / turns),
        )
    }
}

impl Use {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.execution_ms += other.execution_ms;
        self.planning_ms += other.planning_ms;
        self.wal_bytes += other.wal_bytes;
    }

    /// Subtracts what was used before. Without calls since then it is `None`.
    pub(crate) fn since(&self, before: &Self) -> Option<Self> {
        (self.calls > before.calls).then_some(Self {
            calls: self.calls - before.calls,
            execution_ms: self.execution_ms - before.execution_ms,
            planning_ms: self.planning_ms - before.planning_ms,
            wal_bytes: self.wal_bytes - before.wal_bytes,
        })
    }
}

/// Adds up the statements with the same label, and sorts them by time.
fn by_label<'a>(
    statements: impl Iterator<Item = &'a Statement>,
    files: &[SqlFile],
) -> Vec<(String, Use)> {
    let mut sums = BTreeMap::<String, Use>::new();
    for statement in statements {
        sums.entry(label(&statement.query, files)).or_default().add(&statement.used);
    }
    let mut sums: Vec<(String, Use)> = sums.into_iter().collect();
    sums.sort_by(|(_, a), (_, b)| b.execution_ms.total_cmp(&a.execution_ms));
    sums
}

type Labelled = Vec<(String, Use)>;

/// Separates the statements with a large share from those with a small share.
fn split(statements: Labelled, all_ms: f64) -> (Labelled, Labelled) {
    statements.into_iter().partition(|(_, used)| used.execution_ms >= SMALLEST_SHARE * all_ms)
}
