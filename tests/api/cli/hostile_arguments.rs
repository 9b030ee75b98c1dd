//! Arguments with control sequences: no command shows one to the terminal.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::Stdio;

use clap::{Command, CommandFactory as _};
use tokio::process;
use tokio::time::timeout;
use twostep::cli::Cli;

use super::COMMAND_TIMEOUT;
use crate::support::{binary, database, outcome};

/// ESC, a window title and a hyperlink (OSC), their 8-bit forms (C1), bidirectional controls, BEL
/// and DEL.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{1b}]8;;http://evil.example\u{1b}\\y\
    \u{9b}2J\u{9d}0;t\u{9c}\u{202e}\u{2066}\u{200f}\u{7f}\r";

/// The program without a service; `serve` and `worker` have no database either, and therefore exit.
fn program(url: &str, folder: &Path, arguments: &[OsString]) -> process::Command {
    let serves = ["serve", "worker"].iter().any(|name| arguments[0] == *name);
    let mut command = binary(&[]);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Some arguments are names of folders, which the program creates.
    command.current_dir(folder);
    command.env("TWOSTEP_SERVER", "http://127.0.0.1:1");
    command.env("DATABASE_URL", if serves { "nowhere" } else { url });
    command
}

async fn assert_harmless(url: &str, folder: &Path, arguments: &[OsString]) {
    let child = program(url, folder, arguments).spawn().unwrap();
    let output = timeout(COMMAND_TIMEOUT, child.wait_with_output()).await;
    let output = output.unwrap_or_else(|_| panic!("{arguments:?} did not exit")).unwrap();
    let output = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&output);
    let active = text.chars().find(|c| {
        let is_line = matches!(c, '\n' | '\t');
        (c.is_control() && !is_line) || matches!(c, '\u{200f}' | '\u{202e}' | '\u{2066}')
    });
    assert_eq!(active, None, "{arguments:?}: {text:?}");
}

/// All commands that do something, with the words that select them.
fn leaves(command: &Command, path: &[OsString], found: &mut Vec<(Vec<OsString>, Command)>) {
    let inner: Vec<_> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).collect();
    for inner in &inner {
        let path = [path, &[inner.get_name().into()]].concat();
        leaves(inner, &path, found);
    }
    if inner.is_empty() {
        found.push((path.to_vec(), command.clone()));
    }
}

/// The command lines with one hostile argument: an unknown option, each option, each position.
fn attacks(path: &[OsString], command: &Command) -> Vec<Vec<OsString>> {
    let with = |more: &[OsString]| [path, more].concat();
    let mut attacks = vec![
        with(&[format!("--{HOSTILE}").into()]),
        with(&[HOSTILE.into()]),
        with(&[HOSTILE.into(), HOSTILE.into()]),
        with(&[HOSTILE.into(), HOSTILE.into(), HOSTILE.into()]),
        with(&[OsString::from_vec(b"--bind=\xff\x1b[2J\x9b".to_vec())]),
        with(&[OsString::from_vec(b"\xff\x1b[2J\x9b".to_vec())]),
    ];
    for option in command.get_arguments().filter_map(clap::Arg::get_long) {
        if !["help", "version"].contains(&option) {
            attacks.push(with(&[format!("--{option}={HOSTILE}").into()]));
        }
    }
    attacks
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_shows_a_control_sequence_of_an_argument() {
    let database = database().await;
    let url = database.url();
    let folder = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    leaves(&Cli::command(), &[], &mut found);
    assert!(found.len() > 20, "{found:?}");
    for (path, command) in found {
        for attack in attacks(&path, &command) {
            assert_harmless(&url, folder.path(), &attack).await;
        }
    }
    assert_harmless(&url, folder.path(), &[HOSTILE.into()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_refused_argument_shows_its_control_sequences_as_text() {
    let (status, stdout, stderr) = outcome(binary(&["sessions", "show", "\u{1b}[2J"])).await;
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains(r#""\u{1b}[2J" is not an id"#), "{stderr}");
}
