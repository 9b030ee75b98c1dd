//! `twostep chat`.

use serde_json::{Value, json};

use super::{LossyLink, Terminal, busy_session, command, outcome_with_stdin, sessions, statuses};
use crate::support::{BELL, TestApp, asks, calls_as, hangs_first, replies, says};

/// A script that calls the bell, which needs an approval, and that answers all other messages.
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
    outcome_with_stdin(command(app, &[&["chat"], args].concat()), typed).await
}

/// The id of the newest session.
async fn newest(app: &TestApp) -> String {
    sessions(app).await[0]["id"].as_str().unwrap().to_owned()
}

/// The texts of the user messages of a session.
async fn user_messages(app: &TestApp, session: &str) -> Vec<Value> {
    let history = app.existing_session(session).history().await;
    let texts = history.iter().map(|item| item["message"]["content"][0]["text"].clone());
    texts.step_by(2).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_is_a_message_of_one_session() {
    let app = TestApp::start(replies(&[says("You said: {{user}}")])).await;
    let output = chat(&app, &[], "one\n\n  \ntwo").await;
    let session = newest(&app).await;
    let expected = ("You said: one\nYou said: two\n".to_owned(), format!("session {session}\n"));
    assert_eq!(output, (Some(0), expected.0, expected.1));
    assert_eq!(user_messages(&app, &session).await, ["one", "two"]);

    assert_eq!(chat(&app, &["--continue"], "three\n").await.0, Some(0));
    assert_eq!(chat(&app, &["--session", &session], "four\n").await.0, Some(0));
    assert_eq!(user_messages(&app, &session).await, ["one", "two", "three", "four"]);
    // Without input, no session is created.
    assert_eq!(chat(&app, &["--new"], "").await, (Some(0), String::new(), String::new()));
    assert_eq!(sessions(&app).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_is_shown_with_a_question() {
    let app = TestApp::start_with(bell(), asks()).await;
    let (status, stdout, stderr) = chat(&app, &[], "ring\nperhaps\ny\n").await;
    assert_eq!((status, stdout.as_str()), (Some(0), "Done: Rang: one\n"), "{stderr}");
    let question = "Allow? [y]es, [n]o (with an optional reason), [a]lways in this session: ";
    let prompt = format!("ring waits for approval:\n  {{\"line\":\"one\"}}\n{question}");
    let explanation = "Type one of these and press Enter:\n  y           allow this call\n";
    assert!(stderr.contains(&format!("{prompt}{explanation}")), "{stderr}");
    assert_eq!(stderr.matches(question).count(), 2, "{stderr}");
    assert_eq!(rings(&app), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_reaches_the_model_with_its_reason() {
    let app = TestApp::start_with(bell(), asks()).await;
    let (status, stdout, _) = chat(&app, &[], "ring\nno  they sleep \n").await;
    assert_eq!(status, Some(0));
    assert!(stdout.contains("they sleep"), "{stdout}");
    assert_eq!(rings(&app), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn always_allows_later_calls_of_the_session() {
    let app = TestApp::start_with(bell(), asks()).await;
    let (status, _, stderr) = chat(&app, &[], "ring\na\nring again\n").await;
    assert_eq!(status, Some(0));
    assert_eq!(stderr.matches("Allow?").count(), 1, "{stderr}");
    assert_eq!(rings(&app), "one\none\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_decision_waits_and_can_be_continued() {
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
async fn one_interrupt_cancels_the_run_and_two_quit() {
    let app = TestApp::start(hangs_first()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    terminal.press("hang\n").await;
    terminal.wait_for("Well").await;
    let session = busy_session(&app).await;
    terminal.interrupt().await;
    terminal.wait_for("cancelled").await;
    assert_eq!(statuses(&app, &session).await, ["cancelled"]);

    terminal.wait_for("> ").await;
    terminal.press("hello\n").await;
    terminal.wait_for("You said hello.").await;
    terminal.wait_for("> ").await;
    terminal.interrupt().await;
    terminal.wait_for("Ctrl-C again to quit.").await;
    terminal.interrupt().await;
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(130), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_at_a_question_cancels_the_run() {
    let app = TestApp::start_with(bell(), asks()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    terminal.press("ring\n").await;
    terminal.wait_for("Allow?").await;
    terminal.interrupt().await;
    terminal.wait_for("> ").await;
    assert_eq!(statuses(&app, &newest(&app).await).await, ["cancelled"]);
    terminal.press("\u{4}").await;
    assert_eq!(terminal.exit().await.0, Some(0));
    assert_eq!(rings(&app), "");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_typed_before_a_question_does_not_answer_it() {
    let app = TestApp::start_with(bell(), asks()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    terminal.press("ring\ny\n").await;
    terminal.wait_for("Allow?").await;
    terminal.press("n\n").await;
    terminal.wait_for("You said: y").await;
    terminal.press("\u{4}").await;
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(0), "{output}");
    assert_eq!(rings(&app), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_during_an_answer_loses_and_repeats_no_text() {
    const TEXT: &str = "First. Second. Third. Fourth. Fifth. Sixth. Seventh.";
    // The answer is slow enough to still stream when the command reconnects.
    let slow = json!({ "content": [{ "type": "text", "text": TEXT }],
                       "chunk": 7, "pace_ms": 900 });
    let app = TestApp::start(replies(&[slow])).await;
    let link = LossyLink::to(&app).await;
    link.break_after(&["Second"]);
    let mut command = command(&app, &["chat"]);
    command.env("TWOSTEP_SERVER", &link.url);
    let (status, stdout, stderr) = outcome_with_stdin(command, "Count\n").await;
    assert_eq!((status, stdout.as_str()), (Some(0), &*format!("{TEXT}\n")), "{stderr}");
    assert!(stderr.contains("connection lost, reconnecting"), "{stderr}");
    assert_eq!(link.remaining_breaks(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_of_calls_and_answers_do_not_reach_the_terminal() {
    let line = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}one";
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": line }))]);
    let app = TestApp::start_with(replies(&[ring, says(line)]), asks()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    terminal.press("Go\n").await;
    terminal.wait_for("Allow?").await;
    terminal.press("y\n").await;
    terminal.wait_for("> ").await;
    terminal.press("\u{4}").await;
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains(r"\u{1b}]0;title\u{7}\u{9b}2J\u{202e}one"), "{output:?}");
    // The sequences of the editor and of the styles.
    let unstyled = output.replace("\u{1b}[", "[");
    // `script` echoes Ctrl-D as a caret, a D and two backspaces.
    let is_control =
        |c: char| c.is_control() && !matches!(c, '\r' | '\n' | '\u{8}') || c == '\u{202e}';
    assert!(!unstyled.contains(is_control), "{output:?}");
}
