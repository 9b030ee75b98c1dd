//! Comparison of Glob and Grep with `rg`: both must find the same files and lines.
//!
//! `make search` compares and measures on 50,000 files.

#[path = "../../../tests/support/machine.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod machine;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{glob, grep};
use crate::tools::search::Watch;
use crate::tools::search::tests::tree::grow;
use crate::tools::workspace::Workspace;

const GLOBS: [&str; 14] = [
    "*",
    "**/*.rs",
    "*.rs",
    "src/**",
    "/src/**/*.py",
    "*.{md,txt}",
    "!*.txt",
    "*.log",
    "**/n1*/*1?.*",
    "[a-c]*",
    ".hidden*",
    "*[!0-9].txt",
    "**/naïve dir/**",
    "sub/**/*.txt",
];

/// Returns inputs of Grep with the equivalent arguments of `rg`.
fn greps() -> Vec<(Value, Vec<&'static str>)> {
    let content = |pattern: &str, more: Value| {
        let mut input = json!({ "pattern": pattern, "output_mode": "content" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    vec![
        (content("needle", json!({})), vec!["-n", "needle"]),
        (content("needle", json!({ "-i": true })), vec!["-n", "-i", "needle"]),
        (content("^fn \\w+\\(\\) \\{", json!({})), vec!["-n", "^fn \\w+\\(\\) \\{"]),
        (content("\\.3$", json!({ "-C": 1 })), vec!["-n", "-C1", "\\.3$"]),
        (
            content("Needle.*alpha", json!({ "-A": 2, "-B": 1, "-n": false })),
            vec!["-N", "-A2", "-B1", "Needle.*alpha"],
        ),
        (content("\\bstraße\\b|日.語", json!({})), vec!["-n", "\\bstraße\\b|日.語"]),
        (content("STRASSE|NAÏVE", json!({ "-i": true })), vec!["-n", "-i", "STRASSE|NAÏVE"]),
        (content("needle", json!({ "glob": "*.rs" })), vec!["-n", "-g", "*.rs", "needle"]),
        (content("import os", json!({ "type": "py" })), vec!["-n", "-t", "py", "import os"]),
        (content("needle", json!({ "path": "sub" })), vec!["-n", "needle", "sub"]),
        (
            content("\\.3\\s\\w+ beta", json!({ "multiline": true })),
            vec!["-n", "-U", "--multiline-dotall", "\\.3\\s\\w+ beta"],
        ),
        (content("two$|needle$", json!({})), vec!["-n", "two$|needle$"]),
        (json!({ "pattern": "needle" }), vec!["-l", "needle"]),
        (json!({ "pattern": "delta", "output_mode": "count" }), vec!["-c", "delta"]),
        (
            json!({ "pattern": "\\d+\\n\\w", "output_mode": "count", "multiline": true }),
            vec!["-c", "-U", "--multiline-dotall", "\\d+\\n\\w"],
        ),
        (content("no such text anywhere", json!({})), vec!["-n", "no such text anywhere"]),
    ]
}

/// Runs `rg`. Returns its output as sorted lines, and the duration.
fn rg(root: &Path, arguments: &[&str]) -> (Vec<String>, Duration) {
    let mut command = Command::new("rg");
    command.args([
        "--no-config",
        "--no-heading",
        "--no-ignore-messages",
        "--no-require-git",
        "--crlf",
        "--color=never",
        "--threads=2",
    ]);
    command.args(arguments).arg("--glob=!.git").current_dir(root).env("HOME", "/nonexistent");
    command.env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    let started = Instant::now();
    let output = command.output().expect("rg cannot be run; `make test` leaves this test out");
    let took = started.elapsed();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let complaint = complaints.lines().find(|line| !line.contains("'{bad'"));
    assert_eq!(complaint, None, "rg {arguments:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    // With `--crlf`, `rg` ends also the last line of a file with CRLF.
    let lines = printed.split_terminator('\n').map(|line| line.trim_end_matches('\r').to_owned());
    (sorted(lines), took)
}

fn sorted(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().collect();
    lines.sort_unstable();
    lines
}

fn our_glob(root: &Path, pattern: &str) -> (Vec<String>, Duration) {
    let input = serde_json::from_value(json!({ "pattern": pattern })).unwrap();
    let (watch, _guard) = Watch::of(&CancellationToken::new());
    let started = Instant::now();
    let found = glob::find(&Workspace::new(root.to_owned()), &input, &watch).unwrap();
    let took = started.elapsed();
    (sorted(found.iter().map(|fit| fit.path.display().to_string())), took)
}

/// Runs Grep without a limit. Returns its output as sorted lines, and the duration.
fn our_grep(root: &Path, input: &Value) -> (Vec<String>, Duration) {
    let mut input = input.clone();
    input["head_limit"] = json!(usize::MAX);
    let input = serde_json::from_value(input).unwrap();
    let (watch, _guard) = Watch::of(&CancellationToken::new());
    let started = Instant::now();
    let lines = grep::every_line(&Workspace::new(root.to_owned()), &input, &watch).unwrap();
    let took = started.elapsed();
    (sorted(lines), took)
}

/// Returns up to ten lines that only one of the two results contains.
fn difference(ours: &[String], theirs: &[String]) -> Vec<String> {
    let (ours, theirs): (BTreeSet<_>, BTreeSet<_>) =
        (ours.iter().collect(), theirs.iter().collect());
    ours.symmetric_difference(&theirs).take(10).map(|line| (*line).clone()).collect()
}

fn assert_same(what: &str, ours: &[String], theirs: &[String]) {
    assert_eq!(difference(ours, theirs), Vec::<String>::new(), "{what}");
    assert_eq!(ours.len(), theirs.len(), "{what}");
}

#[test]
fn a_glob_finds_the_files_that_rg_finds() {
    if machine::is_left_out("ripgrep") {
        return;
    }
    let root = TempDir::new().unwrap();
    grow(root.path(), 2000);
    let mut total = 0;
    for pattern in GLOBS {
        let theirs = rg(root.path(), &["--files", "-g", pattern]).0;
        total += theirs.len();
        assert_same(pattern, &our_glob(root.path(), pattern).0, &theirs);
    }
    assert!(total > 4000, "too few matches for a comparison: {total}");
}

#[test]
fn a_grep_finds_the_lines_that_rg_finds() {
    if machine::is_left_out("ripgrep") {
        return;
    }
    let root = TempDir::new().unwrap();
    grow(root.path(), 2000);
    let mut total = 0;
    for (input, arguments) in greps() {
        let theirs = rg(root.path(), &[&["-H"], &arguments[..]].concat()).0;
        total += theirs.len();
        assert_same(&input.to_string(), &our_grep(root.path(), &input).0, &theirs);
    }
    assert!(total > 4000, "too few matches for a comparison: {total}");
}

/// Returns the shortest duration of each function in seven alternating rounds.
fn race(ours: impl Fn() -> Duration, theirs: impl Fn() -> Duration) -> (Duration, Duration) {
    let turns = (0..7).map(|_| (ours(), theirs()));
    turns
        .fold((Duration::MAX, Duration::MAX), |best, turn| (best.0.min(turn.0), best.1.min(turn.1)))
}

fn report(what: &str, lines: usize, (ours, theirs): (Duration, Duration)) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    eprintln!("{:7.1} {:7.1} {ratio:6.2} {lines:8}  {what}", millis(ours), millis(theirs));
}

#[test]
#[ignore = "measures: make search"]
fn on_50_000_files_the_results_are_equal_and_the_times_are_reported() {
    let root = TempDir::new().unwrap();
    grow(root.path(), 50_000);
    eprintln!("ours ms   rg ms  ratio    lines");
    for pattern in GLOBS {
        let arguments = ["--files", "-g", pattern];
        let (ours, theirs) = (our_glob(root.path(), pattern).0, rg(root.path(), &arguments).0);
        assert_same(pattern, &ours, &theirs);
        let times = race(|| our_glob(root.path(), pattern).1, || rg(root.path(), &arguments).1);
        report(&format!("Glob {pattern}"), ours.len(), times);
    }
    for (input, arguments) in greps() {
        let arguments = [&["-H"], &arguments[..]].concat();
        let (ours, theirs) = (our_grep(root.path(), &input).0, rg(root.path(), &arguments).0);
        assert_same(&input.to_string(), &ours, &theirs);
        let times = race(|| our_grep(root.path(), &input).1, || rg(root.path(), &arguments).1);
        report(&format!("Grep {input}"), ours.len(), times);
    }
}
