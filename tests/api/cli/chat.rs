//! `twostep chat`.

use serde_json::{Value, json};

use super::{Terminal, Way, asks as asking, busy_session, sessions, statuses, told_on_stdin};
use crate::support::{BELL, TestApp, asks, calls_as, hangs_first, replies, says};

/// A bell that somebody has to allow, and answers to all else.
fn bell() -> Value {
    let ring = |id| calls_as(&[(id, "ring", json!({ "line": "one" }))]);
    json!({ "conversations": [
        { "when": "ring again", "replies": [ring("toolu_2"), says("Done: {{results}}")] },
        { "when": "ring", "replies": [ring("toolu_1"), says("Done: {{results}}")] },
        { "replies": [says("You said: {{user}}")] },
    ], "otherwise": "refuse" })
}

fn rings(app: &TestApp) -> String {
    std::fs::read_to_string(app.folder.path().join(BELL)).unwrap_or_default()
}

async fn chat(app: &TestApp, args: &[&str], typed: &str) -> (Option<i32>, String, String) {
    told_on_stdin(asking(app, &[&["chat"], args].concat()), typed).await
}

/// The id of the newest session.
async fn newest(app: &TestApp) -> String {
    sessions(app).await[0]["id"].as_str().unwrap().to_owned()
}

/// What users said in a session.
async fn said(app: &TestApp, session: &str) -> Vec<Value> {
    let history = app.existing_session(session).history().await;
    let said = history.iter().map(|item| item["message"]["content"][0]["text"].clone());
    said.step_by(2).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_a_message_and_all_are_one_conversation() {
    let app = TestApp::start(replies(&[says("You said: {{user}}")])).await;
    let told = chat(&app, &[], "one\n\n  \ntwo").await;
    let session = newest(&app).await;
    let expected = ("You said: one\nYou said: two\n".to_owned(), format!("session {session}\n"));
    assert_eq!(told, (Some(0), expected.0, expected.1));
    assert_eq!(said(&app, &session).await, ["one", "two"]);

    assert_eq!(chat(&app, &["--continue"], "three\n").await.0, Some(0));
    assert_eq!(chat(&app, &["--session", &session], "four\n").await.0, Some(0));
    assert_eq!(said(&app, &session).await, ["one", "two", "three", "four"]);
    // Who says nothing leaves nothing behind.
    assert_eq!(chat(&app, &["--new"], "").await, (Some(0), String::new(), String::new()));
    assert_eq!(sessions(&app).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_is_shown_and_asked_about() {
    let app = TestApp::start_with(bell(), asks()).await;
    let (status, stdout, stderr) = chat(&app, &[], "ring\nperhaps\ny\n").await;
    assert_eq!((status, stdout.as_str()), (Some(0), "Done: Rang: one\n"), "{stderr}");
    let question = "Allow? [y]es, [n]o (with an optional reason), [a]lways in this session: ";
    let asked = format!("ring waits for approval:\n  {{\"line\":\"one\"}}\n{question}{question}");
    assert!(stderr.contains(&asked), "{stderr}");
    assert_eq!(rings(&app), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_is_told_to_the_model_with_its_reason() {
    let app = TestApp::start_with(bell(), asks()).await;
    let (status, stdout, _) = chat(&app, &[], "ring\nno  they sleep \n").await;
    assert_eq!(status, Some(0));
    assert!(stdout.contains("they sleep"), "{stdout}");
    assert_eq!(rings(&app), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn always_asks_no_more_in_the_session() {
    let app = TestApp::start_with(bell(), asks()).await;
    let (status, _, stderr) = chat(&app, &[], "ring\na\nring again\n").await;
    assert_eq!(status, Some(0));
    assert_eq!(stderr.matches("Allow?").count(), 1, "{stderr}");
    assert_eq!(rings(&app), "one\none\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_decided_on_waits_and_is_taken_up_again() {
    let app = TestApp::start_with(bell(), asks()).await;
    let (status, stdout, stderr) = chat(&app, &[], "ring\n").await;
    assert_eq!((status, stdout.as_str()), (Some(3), ""));
    assert!(stderr.contains("the run waits"), "{stderr}");
    let session = newest(&app).await;
    assert_eq!(statuses(&app, &session).await, ["requires_action"]);

    let (status, stdout, _) = chat(&app, &["--continue"], "y\n").await;
    assert_eq!((status, stdout.as_str()), (Some(0), "Done: Rang: one\n"));
    assert_eq!(rings(&app), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_interrupt_stops_the_run_and_two_quit() {
    let app = TestApp::start(hangs_first()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.until("> ").await;
    terminal.press("hang\n").await;
    terminal.until("Well").await;
    let session = busy_session(&app).await;
    terminal.interrupt().await;
    terminal.until("cancelled").await;
    assert_eq!(statuses(&app, &session).await, ["cancelled"]);

    terminal.until("> ").await;
    terminal.press("hello\n").await;
    terminal.until("You said hello.").await;
    terminal.until("> ").await;
    terminal.interrupt().await;
    terminal.until("Ctrl-C again to quit.").await;
    terminal.interrupt().await;
    let (status, seen) = terminal.end().await;
    assert_eq!(status, Some(130), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_in_place_of_a_decision_stops_the_run() {
    let app = TestApp::start_with(bell(), asks()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.until("> ").await;
    terminal.press("ring\n").await;
    terminal.until("Allow?").await;
    terminal.interrupt().await;
    terminal.until("> ").await;
    assert_eq!(statuses(&app, &newest(&app).await).await, ["cancelled"]);
    terminal.press("\u{4}").await;
    assert_eq!(terminal.end().await.0, Some(0));
    assert_eq!(rings(&app), "");
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_typed_before_a_question_does_not_answer_it() {
    let app = TestApp::start_with(bell(), asks()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.until("> ").await;
    terminal.press("ring\ny\n").await;
    terminal.until("Allow?").await;
    terminal.press("n\n").await;
    terminal.until("You said: y").await;
    terminal.press("\u{4}").await;
    let (status, seen) = terminal.end().await;
    assert_eq!(status, Some(0), "{seen}");
    assert_eq!(rings(&app), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_in_the_middle_of_an_answer_costs_and_repeats_nothing() {
    const TEXT: &str = "First. Second. Third. Fourth. Fifth. Sixth. Seventh.";
    // Slow enough that it is still being said when the connection is made again.
    let slow = json!({ "content": [{ "type": "text", "text": TEXT }],
                       "chunk": 7, "pace_ms": 900 });
    let app = TestApp::start(replies(&[slow])).await;
    let way = Way::to(&app).await;
    way.break_behind(&["Second"]);
    let mut command = asking(&app, &["chat"]);
    command.env("TWOSTEP_SERVER", &way.url);
    let (status, stdout, stderr) = told_on_stdin(command, "Count\n").await;
    assert_eq!((status, stdout.as_str()), (Some(0), &*format!("{TEXT}\n")), "{stderr}");
    assert!(stderr.contains("connection lost, reconnecting"), "{stderr}");
    assert_eq!(way.unbroken(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_the_agent_wants_acts_on_the_terminal() {
    let line = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}one";
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": line }))]);
    let app = TestApp::start_with(replies(&[ring, says(line)]), asks()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.until("> ").await;
    terminal.press("Trick me\n").await;
    terminal.until("Allow?").await;
    terminal.press("y\n").await;
    terminal.until("> ").await;
    terminal.press("\u{4}").await;
    let (status, seen) = terminal.end().await;
    assert_eq!(status, Some(0), "{seen}");
    assert!(seen.contains(r"\u{1b}]0;title\u{7}\u{9b}2J\u{202e}one"), "{seen:?}");
    let rest = seen.replace("\u{1b}[2m", "").replace("\u{1b}[0m", "");
    // `script` echoes Ctrl-D as a caret, a D and two steps back.
    let acts = |c: char| c.is_control() && !matches!(c, '\r' | '\n' | '\u{8}') || c == '\u{202e}';
    assert!(!rest.contains(acts), "{seen:?}");
}
