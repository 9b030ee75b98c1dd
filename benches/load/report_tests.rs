//! The unit tests of the report. They are a test target, because a benchmark without the test harness
//! runs no unit tests.
#![cfg(test)]

mod report;

use std::fs;
use std::path::Path;
use std::time::Duration;

use report::figures::{Figures, Held, Live, LiveRuns, Loads, Starts, Stored};
use report::goal::Goal;
use report::median::{median, percentile, range};
use report::page::replace;
use report::row::{Pair, Row, number};
use report::rows::{grouped, summary, table};
use report::sample::{Cost, Sample, Turn};
use report::script;
use report::statements::{self, Profile, SqlFile, Statement, Use, label};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
    assert_eq!(median([9.0, 1.0, 4.0]), Some(4.0));
    assert_eq!(median([9.0, 1.0, 4.0, 2.0]), Some(3.0));
    assert_eq!(median([5.0]), Some(5.0));
    assert_eq!(median([]), None);
}

#[test]
fn a_percentile_is_the_smallest_duration_that_enough_others_do_not_exceed() {
    let hundred = || (1..=100).rev().map(millis);
    for percent in [1, 50, 99, 100] {
        let expected = millis(u64::try_from(percent).unwrap()).as_secs_f64() * 1000.0;
        assert_eq!(Some(percentile(percent, hundred())), Some(expected));
    }
    assert_eq!(Some(percentile(99, [millis(7)])), Some(7.0));
    assert!(percentile(50, []).is_nan());
}

#[test]
fn a_range_is_the_smallest_and_the_largest_value() {
    assert_eq!(range([2.0, 3.0, 1.0]), Some((1.0, 3.0)));
    assert_eq!(range([]), None);
}

#[test]
fn a_goal_is_met_at_its_limit_and_needs_the_reference_only_for_ratios() {
    let cases = [
        (Goal::RatioAtLeast(1.0), 5.0, Some(1.0), "met", "≥ 1 ×"),
        (Goal::RatioAtLeast(1.0), 5.0, Some(0.9), "missed", "≥ 1 ×"),
        (Goal::RatioAtMost(1.3), 5.0, Some(1.3), "met", "≤ 1.3 ×"),
        (Goal::RatioAtMost(1.3), 5.0, Some(1.4), "missed", "≤ 1.3 ×"),
        (Goal::RatioAtMost(1.3), 5.0, None, "", "≤ 1.3 ×"),
        (Goal::RatioAtMost(1.3), f64::NAN, Some(f64::NAN), "missed", "≤ 1.3 ×"),
        (Goal::AtMost(0.45), 0.45, Some(9.0), "met", "≤ 0.45"),
        (Goal::AtMost(0.45), 0.46, None, "missed", "≤ 0.45"),
        (Goal::AtMost(0.0), 0.0, None, "met", "≤ 0"),
        (Goal::None, 0.46, Some(1.0), "", ""),
    ];
    for (goal, value, ratio, verdict, text) in cases {
        assert_eq!(
            (goal.verdict(value, ratio), goal.text()),
            (verdict, text.to_owned()),
            "{goal:?}"
        );
    }
}

#[test]
fn a_row_has_the_medians_of_the_rounds_and_the_median_of_their_ratios() {
    let pair = |service, reference| Pair { service, reference: Some(reference) };
    let row = Row {
        name: "turns/s".to_owned(),
        rounds: vec![pair(100.0, 200.0), pair(300.0, 400.0), pair(240.0, 300.0)],
        goal: Goal::RatioAtLeast(0.8),
    };
    assert_eq!(row.line(), "| turns/s | 240 | 300 | 0.75 | 0.50 to 0.80 | ≥ 0.8 × | missed |");
    assert_eq!(row.short(), "turns/s 0.75 × (≥ 0.8 ×)");
    assert!(row.is_missed());
}

#[test]
fn a_row_of_one_round_without_a_reference_has_empty_cells() {
    let rounds = vec![Pair { service: 88.61, reference: None }];
    let row = Row { name: "memory, kB".to_owned(), rounds, goal: Goal::AtMost(90.0) };
    assert_eq!(row.line(), "| memory, kB | 88.6 |  |  |  | ≤ 90 | met |");
    assert_eq!(row.short(), "memory, kB 88.6 (≤ 90)");
}

#[test]
fn numbers_have_three_significant_digits() {
    let text = [0.0, 0.01234, 0.1234, 1.234, 12.34, 123.4, 1234.5, f64::NAN].map(number);
    assert_eq!(text, ["0", "0.012", "0.12", "1.23", "12.3", "123", "1234", "–"]);
    assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
}

fn sample(first: u64, answer: u64, whole: u64, turns: usize) -> Sample {
    let turn = Turn { first: millis(first), answer: millis(answer), whole: millis(whole) };
    let cpu = |each: u64| millis(each * u64::try_from(turns).unwrap());
    Sample {
        turns: vec![turn; turns],
        elapsed: Duration::from_secs(2),
        cost: Cost { server: cpu(1), postgres: cpu(2), simulator: cpu(3) },
    }
}

fn loads() -> Vec<Pair<Loads>> {
    let service = Loads { one: sample(1, 4, 6, 20), many: sample(5, 7, 9, 100) };
    let reference = Loads { one: sample(1, 2, 3, 40), many: sample(5, 6, 9, 200) };
    vec![Pair { service, reference: Some(reference) }]
}

#[test]
fn the_table_compares_every_figure_with_its_goal() {
    let live = |errors, first| LiveRuns {
        completed: sample(first, first, 20_000, 10).turns,
        errors,
        bytes: 70_000.0,
    };
    let figures = Figures {
        loads: loads(),
        histories: vec![vec![(10, sample(1, 1, 1, 5)), (1_000, sample(1, 1, 1, 5))]],
        held: Some(Held { streams: 1_000, bytes: Pair { service: 91_000.0, reference: None } }),
        live: vec![Live {
            runs: 1_000,
            seconds: 20,
            outcome: Pair { service: live(1, 5), reference: Some(live(0, 2)) },
        }],
        stored: Some(Stored {
            sessions: 1_000_000,
            rounds: vec![Pair { service: sample(1, 1, 1, 5), reference: Some(sample(1, 1, 1, 5)) }],
        }),
        starts: Some(Starts {
            warm: 17.0,
            first_private_postgres: 700.0,
            later_private_postgres: 55.0,
        }),
    };
    let table = table(&figures);
    for line in [
        "| turns/s, 32 at a time | 50.0 | 100 | 0.50 |  | ≥ 1 × | missed |",
        "| turns/s, 1 at a time | 10.0 | 20.0 | 0.50 |  | ≥ 0.7 × | missed |",
        "| first token of the answer p50, 1 at a time, ms | 4.00 | 2.00 | 2.00 |  | ≤ 1.3 × | missed |",
        "| whole turn p50, 1 at a time, ms | 6.00 | 3.00 | 2.00 |  | ≤ 1.4 × | missed |",
        "| whole turn p99 divided by p50, 32 at a time | 1.00 | 1.00 | 1.00 |  | ≤ 3 | met |",
        "| server CPU a turn, 32 at a time, ms | 1.00 | 1.00 | 1.00 |  | ≤ 0.45 | missed |",
        "| Postgres CPU a turn, 32 at a time, ms | 2.00 | 2.00 | 1.00 |  | ≤ 0.6 | missed |",
        "| server CPU a turn after 10 messages, ms | 1.00 |  |  |  |  |  |",
        "| server CPU a turn after 1,000 messages, ms (reference: after 10) | 1.00 | 1.00 | 1.00 |  \
         | ≤ 1.5 × | met |",
        "| memory a held stream with 1,000 of them, kB | 91.0 |  |  |  | ≤ 90 | missed |",
        "| 1,000 live runs of 20 s, errors | 1.00 | 0 |  |  | ≤ 0 | missed |",
        "| 1,000 live runs of 20 s, first token p99, ms | 5.00 | 2.00 | 2.50 |  | ≤ 2 × | missed |",
        "| server and Postgres CPU a turn with 1,000,000 stored sessions, ms (reference: an empty \
         database) | 3.00 | 3.00 | 1.00 |  | ≤ 1.2 × | met |",
        "| start to ready on a running Postgres, ms | 17.0 |  |  |  |  |  |",
    ] {
        assert!(table.iter().any(|it| it == line), "{line} is not in {table:#?}");
    }
}

#[test]
fn the_summary_has_the_figures_with_goals_and_counts_those_that_are_missed() {
    let figures = Figures { loads: loads(), ..Figures::default() };
    assert_eq!(
        summary(&figures),
        "turns/s, 32 at a time 0.50 × (≥ 1 ×), turns/s, 1 at a time 0.50 × (≥ 0.7 ×), \
         first token of the answer p50, 1 at a time, ms 2.00 × (≤ 1.3 ×), \
         whole turn p50, 1 at a time, ms 2.00 × (≤ 1.4 ×), \
         whole turn p99 divided by p50, 32 at a time 1.00 (≤ 3), \
         server CPU a turn, 32 at a time, ms 1.00 (≤ 0.45), \
         Postgres CPU a turn, 32 at a time, ms 2.00 (≤ 0.6); 6 of 7 goals missed"
    );
}

/// The SQL files of the service.
fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "sql") {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files
}

#[test]
fn a_statement_of_a_file_has_the_name_of_the_file() {
    let texts = files();
    assert!(texts.len() >= 3);
    let files: Vec<SqlFile> = texts.iter().map(|(name, text)| SqlFile::new(name, text)).collect();
    for (name, text) in &texts {
        // Postgres 18 removes the comments before a statement.
        let without_head: Vec<&str> =
            text.lines().skip_while(|line| line.starts_with("--")).collect();
        for text in [text.as_str(), &without_head.join("\n")] {
            assert_eq!(label(text, &files), *name);
        }
    }
    let file = SqlFile::new("one.sql", "-- The first.\nSELECT 'it', 12, true, a_1h FROM runs");
    let stored = "SELECT $1, $2, $3, a_1h\nFROM runs";
    assert_eq!(label(stored, &[file]), "one.sql");
}

#[test]
fn other_statements_are_named_by_command_and_first_table() {
    for (query, name) in [
        ("UPDATE runs r SET lease_until = now() WHERE id = $1", "UPDATE runs"),
        ("INSERT INTO sessions (id) VALUES ($1)", "INSERT sessions"),
        ("DELETE FROM events WHERE session_id = $1", "DELETE events"),
        ("WITH r AS (SELECT id FROM runs FOR UPDATE SKIP LOCKED) SELECT id FROM r", "WITH runs"),
        ("WITH r AS (SELECT id FROM runs FOR UPDATE) UPDATE runs SET a = $1", "UPDATE runs"),
        ("SELECT seq FROM messages WHERE session_id = $1", "SELECT messages"),
        ("SELECT set_config($1, $2, $3)", "SELECT set_config"),
        ("SELECT n FROM (SELECT count(*) AS n FROM runs) AS whole", "SELECT runs"),
        ("SELECT extract(epoch FROM now() - created_at) FROM public.runs", "SELECT runs"),
        (
            r#"SELECT $2 FROM ONLY "public"."sessions" x WHERE "id" OPERATOR(pg_catalog.=) $1 FOR KEY SHARE OF x"#,
            "foreign key to sessions",
        ),
        ("COMMIT", "COMMIT"),
    ] {
        assert_eq!(label(query, &[]), name, "{query}");
    }
}

#[test]
fn the_table_of_statements_adds_up_small_ones_and_separates_nested_ones() {
    let statement = |query: &str, is_nested, execution_ms| Statement {
        query: query.to_owned(),
        is_nested,
        used: Use { calls: 20.0, execution_ms, planning_ms: 1.0, wal_bytes: 10_000.0 },
    };
    let profile = Profile {
        name: "service, 32 at a time".to_owned(),
        turns: 10,
        statements: vec![
            statement("UPDATE runs SET a = 1", false, 30.0),
            statement("UPDATE runs SET b = 1", false, 60.0),
            statement("INSERT INTO tiny VALUES (1)", false, 0.1),
            statement("SELECT 1 FROM small", false, 0.4),
            statement("INSERT INTO webhook_deliveries VALUES (1)", true, 9.05),
        ],
    };
    assert_eq!(
        statements::table(&[profile], &[])[2..],
        [
            "| **service, 32 at a time** | 8.00 | 1.13 | 9.05 | 100% | 0.40 | 4.00 |",
            "| UPDATE runs | 4.00 | 2.25 | 9.00 | 99% | 0.20 | 2.00 |",
            "| 2 others | 4.00 | 0.013 | 0.050 | 1% | 0.20 | 2.00 |",
            "| part of the above: INSERT webhook_deliveries | 2.00 | 0.45 | 0.91 | 10% | 0.10 | 1.00 |",
        ]
    );
}

#[test]
fn a_statement_without_calls_since_the_first_reading_is_left_out() {
    let before = Use { calls: 3.0, execution_ms: 6.0, planning_ms: 1.0, wal_bytes: 50.0 };
    assert_eq!(before.since(&before), None);
    let after = Use { calls: 5.0, execution_ms: 7.0, planning_ms: 1.5, wal_bytes: 70.0 };
    let used = Use { calls: 2.0, execution_ms: 1.0, planning_ms: 0.5, wal_bytes: 20.0 };
    assert_eq!(after.since(&before), Some(used));
}

#[test]
fn a_generated_part_of_a_page_is_replaced_and_the_rest_kept() {
    let page = "# Title\n\n<!-- begin figures -->\n\nold\n\n<!-- end figures -->\n\nText.\n";
    let lines = ["| a |".to_owned(), "| --- |".to_owned()];
    let new = replace(page, "figures", &lines).unwrap();
    assert_eq!(
        new,
        "# Title\n\n<!-- begin figures -->\n\n| a |\n| --- |\n\n<!-- end figures -->\n\nText.\n"
    );
    assert_eq!(replace(&new, "figures", &lines).unwrap(), new);
    assert!(replace(page, "statements", &lines).is_err());
}

#[test]
fn a_script_is_divided_into_statements_with_values_for_its_variables() {
    let script = "-- psql -v sessions=7\n\\set ON_ERROR_STOP on\nBEGIN;\nSELECT 'a;b', n::text\n\
                  FROM generate_series(1, :sessions) n -- rows\nWHERE n < :events;\n\nCOMMIT;\n";
    assert_eq!(
        script::statements(script, &[("sessions", 5), ("events", 50)]),
        [
            "BEGIN",
            "SELECT 'a;b', n::text\nFROM generate_series(1, 5) n -- rows\nWHERE n < 50",
            "COMMIT",
        ]
    );
}
