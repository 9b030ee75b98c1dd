//! The commands of the documentation, run in order by a shell, print what the pages show.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::{PROGRAM, Program, binary, database, machine};

/// The placeholder for any text within a line, or for any number of lines.
const ANYTHING: char = '…';

/// Commands, and the part of their output that the page shows.
struct Recipe<'a> {
    commands: &'a str,
    shown: Option<&'a str>,
}

/// The blocks of commands, each with the block of text directly after it.
fn recipes(page: &str) -> Vec<Recipe<'_>> {
    let mut recipes = Vec::new();
    let mut rest = page;
    while let Some((_, block)) = rest.split_once("\n```sh\n") {
        let (commands, after) = block.split_once("\n```\n").unwrap();
        let shown =
            after.strip_prefix("\n```text\n").map(|text| text.split_once("```\n").unwrap().0);
        recipes.push(Recipe { commands, shown });
        rest = after;
    }
    recipes
}

/// Returns whether a line matches the shown line.
fn is_line(shown: &str, line: &str) -> bool {
    let mut parts = shown.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Returns whether lines match the shown lines.
fn is_shown(shown: &[&str], lines: &[&str]) -> bool {
    match shown {
        [] => lines.is_empty(),
        ["…", rest @ ..] => (0..=lines.len()).any(|skipped| is_shown(rest, &lines[skipped..])),
        [first, rest @ ..] => lines
            .split_first()
            .is_some_and(|(line, lines)| is_line(first, line) && is_shown(rest, lines)),
    }
}

fn assert_shown(recipe: &Recipe<'_>, printed: &str) {
    let Some(shown) = recipe.shown else { return };
    let printed = printed.replace('\r', "");
    let lines = |text| str::lines(text).collect::<Vec<_>>();
    assert!(
        is_shown(&lines(shown), &lines(&printed)),
        "{}\n--- shows\n{shown}\n--- and prints\n{printed}",
        recipe.commands
    );
}

/// A script of all commands. It writes the output and the status of each block to two files.
fn script(recipes: &[Recipe<'_>], url: &str) -> String {
    let mut script = "set -u\n".to_owned();
    for (n, Recipe { commands, .. }) in recipes.iter().enumerate() {
        let commands = commands.replace("http://127.0.0.1:8080", url);
        write!(script, "{{\n{commands}\n}} >{n} 2>&1\necho $? >{n}.status\n").unwrap();
    }
    script
}

/// Runs the commands of a page against a service and compares their output with the page.
async fn assert_page_prints(page: &str, auth: &str, is_included: fn(&Recipe<'_>) -> bool) {
    if machine::is_left_out("jq") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join(page)).unwrap();
    let mut recipes = recipes(&page);
    assert_eq!(
        recipes.iter().filter(|it| it.shown.is_some()).count(),
        page.matches("```text\n").count()
    );
    recipes.retain(is_included);
    assert!(!recipes.is_empty());

    let (database, folder) = (database().await, TempDir::new().unwrap());
    let mut serve = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--auth", auth]);
    serve.env("DATABASE_URL", database.url()).env("TWOSTEP_DATA_DIR", folder.path());
    let program = Program::serve(serve).await;

    let programs = Path::new(PROGRAM).parent().unwrap().display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(script(&recipes, &program.url)).current_dir(folder.path());
    shell.env("PATH", path).env("DATABASE_URL", database.url()).env("no_proxy", "*");
    shell.stdin(Stdio::null()).kill_on_drop(true);
    let status = timeout(Duration::from_mins(2), shell.status()).await;
    assert!(status.expect("the commands did not exit in time").unwrap().success());

    for (n, recipe) in recipes.iter().enumerate() {
        let read = |name: String| fs::read_to_string(folder.path().join(name)).unwrap();
        let (printed, status) = (read(n.to_string()), read(format!("{n}.status")));
        assert_shown(recipe, &printed);
        assert_eq!(status, "0\n", "{}\n{printed}", recipe.commands);
    }
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_cookbook_prints_the_shown_output() {
    assert_page_prints("docs/curl.md", "keys", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_first_steps_succeeds() {
    assert_page_prints("docs/first-steps.md", "open", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quick_start_of_the_readme_prints_the_shown_output() {
    assert_page_prints("README.md", "open", |recipe| recipe.shown.is_some()).await;
}

#[test]
fn a_different_output_is_detected() {
    let cases = [
        ("a\nb", "a\nb", true),
        ("a\nb", "a", false),
        ("a", "a\nb", false),
        ("a…c", "abbc", true),
        ("a…c…", "abcd", true),
        ("a…c", "abcd", false),
        ("a…b…c", "ac", false),
        ("…\nb", "a\na\nb", true),
        ("…\nb", "b", true),
        ("…\nb\n…", "a\nc", false),
    ];
    for (shown, printed, expected) in cases {
        let (shown, printed): (Vec<_>, Vec<_>) =
            (shown.lines().collect(), printed.lines().collect());
        assert_eq!(is_shown(&shown, &printed), expected, "{shown:?} {printed:?}");
    }
}
