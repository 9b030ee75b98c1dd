//! `twostep run`.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Child;
use tokio::time::{Instant, timeout};

use super::{
    PATIENCE, Terminal, Way, asks as asking, busy_session, good, sessions, statuses, told,
    told_on_stdin,
};
use crate::support::{
    BELL, TestApp, asks, binary, calls, calls_as, data_dir, hangs_first, keys_needed, outcome,
    replies, says,
};

/// A tool is used, and then the question answered.
fn noon() -> Value {
    let look = json!({ "content": [
        { "type": "text", "text": "I will look." },
        { "type": "tool_use", "name": "get_time", "input": {} },
    ] });
    replies(&[look, says("It is noon.")])
}

/// A bell that somebody has to allow.
fn ring() -> Value {
    replies(&[calls_as(&[("toolu_1", "ring", json!({ "line": "one" }))]), says("Done.")])
}

fn interrupt(child: &Child) {
    let pid = child.id().unwrap().try_into().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_the_answer_and_nothing_else() {
    let app = TestApp::start(noon()).await;
    assert_eq!(good(told(&app, &["run", "What time is it?"]).await), "It is noon.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_the_run_or_its_events() {
    let app = TestApp::start(noon()).await;
    let printed = good(told(&app, &["run", "--output", "json", "What time is it?"]).await);
    let run: Value = serde_json::from_str(&printed).unwrap();
    let id = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(run, app.existing_session(&id).run(&run).await);
    assert_eq!(run["output_text"], "It is noon.");

    let printed = good(told(&app, &["run", "--output", "jsonl", "And what time is it now?"]).await);
    let events: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (durable, previews): (Vec<Value>, Vec<Value>) =
        events.into_iter().partition(|event| event["seq"].is_number());
    let id = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(durable, app.existing_session(&id).events().await);
    let is_preview =
        |event: &Value| event["type"].as_str().is_some_and(|kind| kind.starts_with("event_"));
    assert!(previews.iter().all(is_preview), "{previews:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_to_say_may_come_from_stdin() {
    let app = TestApp::start(replies(&[says("You said: {{user}}")])).await;
    for args in [&["run"][..], &["run", "-"]] {
        let printed = told_on_stdin(asking(&app, args), "two\nlines\n").await;
        assert_eq!(good(printed), "You said: two\nlines\n");
    }
    let empty = told_on_stdin(asking(&app, &["run"]), " \n").await;
    assert_eq!(empty, (Some(2), String::new(), "twostep: the prompt is empty\n".to_owned()));
    assert_eq!(sessions(&app).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on() {
    let app = TestApp::start(replies(&[says("You said: {{user}}")])).await;
    let session = app.session().await;
    for text in ["one", "two"] {
        let printed = good(told(&app, &["run", "--session", &session.id, text]).await);
        assert_eq!(printed, format!("You said: {text}\n"));
    }
    assert_eq!(session.history().await.len(), 4);
    let unknown = "ses_00000000000000000000000000000000";
    let (status, stdout, stderr) = told(&app, &["run", "--session", unknown, "three"]).await;
    let expected = format!("twostep: there is no session {unknown}\n");
    assert_eq!((status, stdout, stderr), (Some(1), String::new(), expected));
    let (status, _, _) = told(&app, &["run", "--session", "nonsense", "three"]).await;
    assert_eq!(status, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_the_session_and_the_run_reaches_them() {
    let listing = calls("list_files", json!({}));
    let app = TestApp::start(replies(&[listing.clone(), listing, says("Enough.")])).await;
    let args =
        ["run", "--model", "claude-opus-5-5", "--tools", "list_files,get_time", "--max-rounds"];
    let more = ["1", "--permission-mode", "plan", "--output", "json", "List"];
    let (status, stdout, stderr) = told(&app, &[&args[..], &more].concat()).await;
    let run: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((status, &run["limited_by"]), (Some(0), &json!("rounds")), "{run}");
    assert_eq!(stderr, "twostep: a limit was reached: rounds\n");
    let session = &sessions(&app).await[0];
    let made = json!([session["model"], session["tools"], session["permission_mode"]]);
    assert_eq!(made, json!(["claude-opus-5-5", ["list_files", "get_time"], "plan"]));
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_ends_the_command_unless_it_is_told_what_to_decide() {
    let app = TestApp::start_with(ring(), asks()).await;
    let rings = || std::fs::read_to_string(app.folder.path().join(BELL)).unwrap_or_default();
    let (status, stdout, stderr) = told(&app, &["run", "Ring"]).await;
    let id = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    let expected = format!(
        "twostep: ring waits for an approval: {{\"line\":\"one\"}}\n\
         Decide with: twostep chat --session {id}\n"
    );
    assert_eq!((status, stdout, stderr), (Some(3), String::new(), expected.clone()));
    assert_eq!(statuses(&app, &id).await, ["requires_action"]);
    let (status, stdout, stderr) = told(&app, &["run", "--session", &id, "Ring again"]).await;
    let nothing =
        "twostep: the message was not sent, because a run of the session waits for an action\n";
    assert_eq!((status, stdout, stderr), (Some(3), String::new(), format!("{nothing}{expected}")));
    assert_eq!(statuses(&app, &id).await, ["requires_action"]);

    assert_eq!(good(told(&app, &["run", "--deny", "Ring"]).await), "Done.\n");
    assert_eq!(rings(), "");
    assert_eq!(good(told(&app, &["run", "--yes", "Ring"]).await), "Done.\n");
    assert_eq!(rings(), "one\n");
    assert_eq!(told(&app, &["run", "--yes", "--deny", "Ring"]).await.0, Some(2));
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_says_why() {
    let app = TestApp::start(replies(&[json!({ "status": 400 })])).await;
    let (status, stdout, stderr) = told(&app, &["run", "Hello"]).await;
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    assert!(stderr.starts_with("twostep: model_request_failed_error: "), "{stderr}");
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_not_there_has_a_status_of_its_own() {
    let mut command = binary(&["run", "Hello"]);
    command.env("TWOSTEP_SERVER", "http://127.0.0.1:1/agent/");
    let (status, stdout, stderr) = outcome(command).await;
    assert_eq!((status, stdout.as_str()), (Some(4), ""));
    let place = "twostep: http://127.0.0.1:1/agent cannot be reached: ";
    assert!(stderr.starts_with(place) && stderr.contains("twostep serve"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_sent_and_never_said() {
    let app = TestApp::start_with(noon(), keys_needed()).await;
    let (status, _, stderr) = told(&app, &["run", "Hello"]).await;
    assert_eq!(status, Some(1));
    assert!(
        stderr.contains("an API key is required") && stderr.contains("TWOSTEP_KEY"),
        "{stderr}"
    );

    let tenant = twostep::domain::ids::TenantId::DEFAULT;
    let key = app.database.key(tenant, twostep::domain::api_key::Scope::Write).await.reveal();
    let mut command = asking(&app, &["run", "Hello"]);
    assert_eq!(
        good(
            outcome({
                command.env("TWOSTEP_KEY", &key);
                command
            })
            .await
        ),
        "It is noon.\n"
    );
    assert_eq!(good(told(&app, &["run", "--key", &key, "Hello again"]).await), "It is noon.\n");
    let mut command = asking(&app, &["run", "--help"]);
    let help = good(
        outcome({
            command.env("TWOSTEP_KEY", &key);
            command
        })
        .await,
    );
    assert!(help.contains("TWOSTEP_KEY") && help.contains("Examples:"), "{help}");
    assert!(!help.contains(&key), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_stops_the_run_and_waits_until_it_has_settled() {
    let app = TestApp::start(hangs_first()).await;
    let mut child = asking(&app, &["run", "hang"]).spawn().unwrap();
    let id = busy_session(&app).await;
    interrupt(&child);
    let status = timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(statuses(&app, &id).await, ["cancelled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_waits_for_nothing() {
    let app = TestApp::start(hangs_first()).await;
    let way = Way::to(&app).await;
    let mut command = asking(&app, &["run", "hang"]);
    let mut child = command.env("TWOSTEP_SERVER", &way.url).spawn().unwrap();
    let id = busy_session(&app).await;
    // Nobody will hear of the first.
    way.drop_traffic();
    let begun = Instant::now();
    let status = loop {
        interrupt(&child);
        match timeout(std::time::Duration::from_millis(300), child.wait()).await {
            Ok(status) => break status.unwrap(),
            Err(_) => assert!(begun.elapsed() < PATIENCE, "it did not end"),
        }
    };
    assert_eq!(status.code(), Some(130));
    assert_eq!(statuses(&app, &id).await, ["running"]);
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_answer_is_lost_is_one_message() {
    let app = TestApp::start(noon()).await;
    let way = Way::to(&app).await;
    way.lose_answer();
    let mut command = asking(&app, &["run", "What time is it?"]);
    command.env("TWOSTEP_SERVER", &way.url);
    assert_eq!(good(outcome(command).await), "It is noon.\n");
    assert!(way.has_lost());
    let id = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(statuses(&app, &id).await, ["completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_goes_on_without_loss_or_repeat() {
    let app = TestApp::start_with(ring(), asks()).await;
    let way = Way::to(&app).await;
    way.break_behind(&["session.status_running", "agent.tool_use", "user.tool_confirmation"]);
    let mut command = asking(&app, &["run", "--yes", "--output", "jsonl", "Ring"]);
    command.env("TWOSTEP_SERVER", &way.url);
    let printed = good(outcome(command).await);
    assert_eq!(way.unbroken(), [""; 0]);
    let seqs: Vec<i64> = printed
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_i64())
        .collect();
    let id = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    let all = app.existing_session(&id).events().await;
    assert_eq!(seqs, (1..=all.len().try_into().unwrap()).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_the_answer_as_it_comes_and_what_the_agent_does() {
    let app = TestApp::start(replies(&[
        calls("get_time", json!({})),
        json!({ "content": [{ "type": "text", "text": "First. Second." }],
                "chunk": 7, "hang_after": 4 }),
    ]))
    .await;
    let mut terminal = Terminal::start(&app, &["run", "What time is it?"]);
    terminal.until("· get_time {}").await;
    // The model has said no more than this, and has not ended.
    terminal.until("First.").await;
    terminal.interrupt().await;
    let (status, seen) = terminal.end().await;
    assert_eq!(status, Some(130), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_the_agent_says_or_does_acts_on_the_terminal() {
    let trick = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\u{202e}d";
    let name = "\u{1b}[2J.txt";
    let app =
        TestApp::start(replies(&[calls("read_file", json!({ "path": name })), says(trick)])).await;
    let (status, seen) = Terminal::start(&app, &["run", "Trick me"]).end().await;
    assert_eq!(status, Some(0), "{seen}");
    assert!(seen.contains(r"a\u{1b}]0;title\u{7}b\u{9b}2Jc\u{202e}d"), "{seen:?}");
    let rest = seen.replace("\u{1b}[2m", "").replace("\u{1b}[0m", "");
    let acts = |c: char| c.is_control() && !matches!(c, '\r' | '\n') || c == '\u{202e}';
    assert!(!rest.contains(acts), "{seen:?}");

    let args = ["run", "--output", "json", "Trick me again"];
    let (_, seen) = Terminal::start(&app, &args).end().await;
    assert!(!seen.replace("\r\n", "").contains(acts), "{seen:?}");
    assert_eq!(serde_json::from_str::<Value>(&seen).unwrap()["output_text"], trick);
    // A program gets what was said.
    let printed = good(told(&app, &["run", "Trick a program"]).await);
    assert_eq!(printed, format!("{trick}\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_is_enough_where_no_service_runs() {
    let folder = data_dir();
    let mut command =
        binary(&["run", "--local", "--offline", "--workspace", "src", "List the files"]);
    command.env("TWOSTEP_DATA_DIR", folder.path()).env("TWOSTEP_NO_WORKER", "true");
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let (status, stdout, stderr) = outcome(command).await;
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("`config/`"), "{stdout}");
}
