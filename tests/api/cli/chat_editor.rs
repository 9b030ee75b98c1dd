//! `twostep chat` with a user at a terminal: the line editor, and the form of the output.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Terminal, sessions};
use crate::support::{TestApp, asks, calls_as, replies, says};

const LEFT: &str = "\u{1b}[D";
const UP: &str = "\u{1b}[A";
const ALT_ENTER: &str = "\u{1b}\r";

/// The texts of the user messages of the newest session.
async fn user_messages(app: &TestApp) -> Vec<Value> {
    let session = sessions(app).await[0]["id"].as_str().unwrap().to_owned();
    let history = app.existing_session(&session).history().await;
    let texts = history.iter().map(|item| item["message"]["content"][0]["text"].clone());
    texts.step_by(2).collect()
}

/// Output without the sequences of the terminal.
fn without_sequences(output: &str) -> String {
    let mut text = String::new();
    let mut rest = output.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // A control sequence ends with a letter.
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            text.push(c);
        }
    }
    text.replace('\r', "")
}

/// Output without the lines that were replaced.
fn without_replaced(output: &str) -> String {
    let lines = output.split('\n');
    let kept = lines.map(|line| line.rsplit("\r\u{1b}[K").next().unwrap_or_default());
    kept.collect::<Vec<_>>().join("\n")
}

/// Types a message and waits for the next prompt.
async fn say(terminal: &mut Terminal, keys: &str) {
    terminal.press(keys).await;
    terminal.wait_for("You said").await;
    terminal.wait_for("> ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pasted_lines_are_one_message_and_keys_edit_it() {
    let app = TestApp::start(replies(&[says("You said: {{user}}")])).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    let paste = "one\ntwo\nthree\nfour\nfive";
    say(&mut terminal, &format!("\u{1b}[200~{paste}\u{1b}[201~\r")).await;
    say(&mut terminal, &format!("wrld{LEFT}{LEFT}{LEFT}o\r")).await;
    say(&mut terminal, &format!("first{ALT_ENTER}second\r")).await;
    say(&mut terminal, &format!("{UP}{UP}{UP}\r")).await;
    let expected = [paste, "world", "first\nsecond", "world"];
    let sent = user_messages(&app).await;
    assert_eq!(sent, expected);
    let history = terminal.data.path().join("chat-history");
    let mode = fs::metadata(&history).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the mode of the history");
    assert!(fs::read_to_string(history).unwrap().contains("world"));

    terminal.press("\u{4}").await;
    let session = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(0), "{output}");
    let continues = format!("To continue: twostep chat --session {session}");
    assert!(output.contains(&continues), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_is_wrapped_at_words() {
    let words = "wonderful ".repeat(40);
    for columns in [60, 120] {
        let app = TestApp::start(replies(&[says(&format!("You said **much**: {words}end"))])).await;
        let mut terminal = Terminal::of_width(&app, &["chat"], columns);
        terminal.wait_for("> ").await;
        say(&mut terminal, "Tell me more\r").await;
        terminal.press("\u{4}").await;
        let (status, output) = terminal.exit().await;
        assert_eq!(status, Some(0), "{output}");
        let text = without_sequences(&without_replaced(&output));
        let answer: Vec<&str> = text.lines().filter(|line| line.contains("wonderful")).collect();
        assert!(answer.len() > 2, "{text}");
        for line in &answer {
            assert!(line.len() <= columns, "{columns}: {line:?}");
            assert!(
                line.split(' ')
                    .all(|word| word.is_empty() || "You said much: wonderful end".contains(word)),
                "{line:?}"
            );
        }
        let full = answer[0].len();
        assert!(full + "wonderful ".len() > columns, "{columns}: {:?}", answer[0]);
        assert!(output.contains("\u{1b}[1mmuch\u{1b}[22m"), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_a_run_and_the_results_of_its_tools_are_shown() {
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": "one" }))]);
    let slow = json!({ "content": [{ "type": "text", "text": "You said so" }], "delay_ms": 2500 });
    let app = TestApp::start_with(replies(&[ring, slow]), asks()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    terminal.press("Go\r").await;
    terminal.wait_for("Allow?").await;
    terminal.press("y\r").await;
    terminal.wait_for("→ Rang: one").await;
    terminal.wait_for("the model works 1 s").await;
    terminal.wait_for("You said so").await;
    terminal.wait_for("> ").await;
    // The terminal keeps its settings, also if the program is stopped at the prompt.
    terminal.interrupt().await;
    terminal.wait_for("Ctrl-C again to quit.").await;
    terminal.interrupt().await;
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(130), "{output}");
    assert!(output.contains("To continue: twostep chat --session ses_"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_after_a_pause_discards_text_and_does_not_quit() {
    let app = TestApp::start(replies(&[says("You said: {{user}}")])).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    terminal.press("some text").await;
    terminal.wait_for("some text").await;
    terminal.interrupt().await;
    terminal.wait_for("Ctrl-C again to quit.").await;
    // Longer than the time within which a second Ctrl-C quits.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    terminal.press("more text").await;
    terminal.wait_for("more text").await;
    terminal.interrupt().await;
    terminal.wait_for("Ctrl-C again to quit.").await;
    terminal.wait_for("> ").await;
    // The arrow key brings the discarded text back.
    say(&mut terminal, &format!("{UP}!\r")).await;
    assert_eq!(user_messages(&app).await, ["more text!"]);

    terminal.interrupt().await;
    terminal.wait_for("Ctrl-C again to quit.").await;
    terminal.press("text").await;
    terminal.wait_for("text").await;
    terminal.interrupt().await;
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(130), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupt_signals_at_the_prompt_quit_the_chat() {
    let app = TestApp::start(replies(&[])).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    terminal.send_interrupt_signal();
    terminal.wait_for("Ctrl-C again to quit.").await;
    terminal.send_interrupt_signal();
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(130), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unclear_reply_to_a_question_is_explained() {
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": "one" }))]);
    let app = TestApp::start_with(replies(&[ring, says("You said so")]), asks()).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    terminal.press("Go\r").await;
    terminal.wait_for("Allow?").await;
    terminal.press("maybe\r").await;
    terminal.wait_for("Type one of these and press Enter:").await;
    terminal.wait_for("n REASON").await;
    terminal.wait_for("Allow?").await;
    terminal.press("y\r").await;
    terminal.wait_for("You said so").await;
    terminal.wait_for("> ").await;
    terminal.press("\u{4}").await;
    assert_eq!(terminal.exit().await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_d_during_a_run_ends_the_chat_after_the_run() {
    let slow = json!({ "content": [{ "type": "text", "text": "You said so" }], "delay_ms": 1500 });
    let app = TestApp::start(replies(&[slow])).await;
    let mut terminal = Terminal::start(&app, &["chat"]);
    terminal.wait_for("> ").await;
    terminal.press("Go\r").await;
    terminal.wait_for("the model works").await;
    terminal.press("\u{4}").await;
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains("You said so"), "{output}");
    assert!(output.contains("To continue: twostep chat --session ses_"), "{output}");
}
