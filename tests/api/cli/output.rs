//! What commands take and say, and whoever reads of it only as much as they like.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::support::{TestApp, binary, outcome, replies};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_reader_has_read_enough_ends_quietly() {
    let mut command = binary(&["openapi"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).await.unwrap();
    drop(stdout);
    let ended = timeout(Duration::from_secs(30), child.wait_with_output());
    let output = ended.await.expect("the command did not end").unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_options_of_budgets_stand_before_the_action_or_behind_it() {
    let app = TestApp::start(replies(&[])).await;
    let url = app.database.url();
    let options = ["--tenant", "nobody", "--database-url", &url];
    let expected =
        (Some(1), String::new(), "twostep: tenant \"nobody\" does not exist\n".to_owned());
    for args in [[&["budget"], &options[..], &["list"]], [&["budget"], &["list"], &options[..]]] {
        assert_eq!(outcome(binary(&args.concat())).await, expected, "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_nothing_is_told_what_it_may_be_of() {
    let (status, _, said) = outcome(binary(&["budget", "set", "day"])).await;
    assert_eq!(status, Some(2));
    assert!(said.contains("<--tokens <TOKENS>|--cost <COST>> <PERIOD>"), "{said}");
}
