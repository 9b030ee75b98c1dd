//! Arguments of commands, and readers that close the pipe early.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::support::{TestApp, binary, outcome, replies};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_reader_closes_the_pipe_exits_without_an_error() {
    let mut command = binary(&["openapi"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).await.unwrap();
    drop(stdout);
    let exited = timeout(Duration::from_secs(30), child.wait_with_output());
    let output = exited.await.expect("the command did not exit").unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_options_of_budget_may_precede_or_follow_the_action() {
    let app = TestApp::start(replies(&[])).await;
    let url = app.database.url();
    let options = ["--tenant", "missing", "--database-url", &url];
    let expected =
        (Some(1), String::new(), "twostep: tenant \"missing\" does not exist\n".to_owned());
    for args in [[&["budget"], &options[..], &["list"]], [&["budget"], &["list"], &options[..]]] {
        assert_eq!(outcome(binary(&args.concat())).await, expected, "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_without_a_limit_is_refused_with_the_usage() {
    let (status, _, stderr) = outcome(binary(&["budget", "set", "day"])).await;
    assert_eq!(status, Some(2));
    assert!(stderr.contains("<--tokens <TOKENS>|--cost <COST>> <PERIOD>"), "{stderr}");
}
