//! `twostep run`.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Child;
use tokio::time::{Instant, timeout};

use super::{
    COMMAND_TIMEOUT, LossyLink, Terminal, busy_session, command, outcome_with_stdin, run_command,
    sessions, statuses, stdout_of,
};
use crate::support::{
    BELL, TestApp, asks, binary, calls, calls_as, data_dir, hangs_first, keys_needed, outcome,
    replies, says,
};

/// A script that calls a tool and then answers.
fn noon() -> Value {
    let call = json!({ "content": [
        { "type": "text", "text": "I will check." },
        { "type": "tool_use", "name": "get_time", "input": {} },
    ] });
    replies(&[call, says("It is noon.")])
}

/// A script that calls the bell, which needs an approval.
fn ring() -> Value {
    replies(&[calls_as(&[("toolu_1", "ring", json!({ "line": "one" }))]), says("Done.")])
}

fn interrupt(child: &Child) {
    let pid = child.id().unwrap().try_into().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stdout_is_the_answer_and_nothing_else() {
    let app = TestApp::start(noon()).await;
    assert_eq!(stdout_of(run_command(&app, &["run", "What time is it?"]).await), "It is noon.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_output_is_the_run_and_jsonl_output_is_its_events() {
    let app = TestApp::start(noon()).await;
    let printed =
        stdout_of(run_command(&app, &["run", "--output", "json", "What time is it?"]).await);
    let run: Value = serde_json::from_str(&printed).unwrap();
    let id = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(run, app.existing_session(&id).run(&run).await);
    assert_eq!(run["output_text"], "It is noon.");

    let printed = stdout_of(
        run_command(&app, &["run", "--output", "jsonl", "And what time is it now?"]).await,
    );
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
async fn the_prompt_may_come_from_stdin() {
    let app = TestApp::start(replies(&[says("You said: {{user}}")])).await;
    for args in [&["run"][..], &["run", "-"]] {
        let printed = outcome_with_stdin(command(&app, args), "two\nlines\n").await;
        assert_eq!(stdout_of(printed), "You said: two\nlines\n");
    }
    let empty = outcome_with_stdin(command(&app, &["run"]), " \n").await;
    assert_eq!(empty, (Some(2), String::new(), "twostep: the prompt is empty\n".to_owned()));
    assert_eq!(sessions(&app).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_continued() {
    let app = TestApp::start(replies(&[says("You said: {{user}}")])).await;
    let session = app.session().await;
    for text in ["one", "two"] {
        let printed = stdout_of(run_command(&app, &["run", "--session", &session.id, text]).await);
        assert_eq!(printed, format!("You said: {text}\n"));
    }
    assert_eq!(session.history().await.len(), 4);
    let unknown = "ses_00000000000000000000000000000000";
    let (status, stdout, stderr) = run_command(&app, &["run", "--session", unknown, "three"]).await;
    let expected = format!("twostep: there is no session {unknown}\n");
    assert_eq!((status, stdout, stderr), (Some(1), String::new(), expected));
    let (status, _, _) = run_command(&app, &["run", "--session", "nonsense", "three"]).await;
    assert_eq!(status, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_explained_with_a_command_that_can_be_copied() {
    let app = TestApp::start_with(json!({}), keys_needed()).await;
    let (status, _, stderr) = run_command(&app, &["run", "Hi"]).await;
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("`Authorization: Bearer $TWOSTEP_KEY`"), "{stderr}");
    assert!(!stderr.contains("***"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_apply_to_the_session_and_the_run() {
    let listing = calls("list_files", json!({}));
    let app = TestApp::start(replies(&[listing.clone(), listing, says("Enough.")])).await;
    let args =
        ["run", "--model", "claude-opus-5-5", "--tools", "list_files,get_time", "--max-rounds"];
    let more = ["1", "--permission-mode", "plan", "--output", "json", "List"];
    let (status, stdout, stderr) = run_command(&app, &[&args[..], &more].concat()).await;
    let run: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((status, &run["limited_by"]), (Some(0), &json!("rounds")), "{run}");
    assert_eq!(stderr, "twostep: a limit was reached: rounds\n");
    let session = &sessions(&app).await[0];
    let created = json!([session["model"], session["tools"], session["permission_mode"]]);
    assert_eq!(created, json!(["claude-opus-5-5", ["list_files", "get_time"], "plan"]));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_exits_when_a_call_waits_unless_an_option_decides() {
    let app = TestApp::start_with(ring(), asks()).await;
    let rings = || std::fs::read_to_string(app.folder.path().join(BELL)).unwrap_or_default();
    let (status, stdout, stderr) = run_command(&app, &["run", "Ring"]).await;
    let id = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    let expected = format!(
        "twostep: ring waits for an approval: {{\"line\":\"one\"}}\n\
         Decide with: twostep chat --session {id}\n"
    );
    assert_eq!((status, stdout, stderr), (Some(3), String::new(), expected.clone()));
    assert_eq!(statuses(&app, &id).await, ["requires_action"]);
    let (status, stdout, stderr) =
        run_command(&app, &["run", "--session", &id, "Ring again"]).await;
    let not_sent =
        "twostep: the message was not sent, because a run of the session waits for an action\n";
    assert_eq!((status, stdout, stderr), (Some(3), String::new(), format!("{not_sent}{expected}")));
    assert_eq!(statuses(&app, &id).await, ["requires_action"]);

    assert_eq!(stdout_of(run_command(&app, &["run", "--deny", "Ring"]).await), "Done.\n");
    assert_eq!(rings(), "");
    assert_eq!(stdout_of(run_command(&app, &["run", "--yes", "Ring"]).await), "Done.\n");
    assert_eq!(rings(), "one\n");
    assert_eq!(run_command(&app, &["run", "--yes", "--deny", "Ring"]).await.0, Some(2));
    let cancelled = app.post(&format!("/v1/sessions/{id}/cancel")).send().await.unwrap();
    assert!(cancelled.status().is_success());
    app.has_settled("cancelled", 1).await;
    // Two sessions begin with the same message.
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_states_its_error() {
    let app = TestApp::start(replies(&[json!({ "status": 400 })])).await;
    let (status, stdout, stderr) = run_command(&app, &["run", "Hello"]).await;
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    assert!(stderr.starts_with("twostep: model_request_failed_error: "), "{stderr}");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_service_has_its_own_exit_status() {
    let mut command = binary(&["run", "Hello"]);
    command.env("TWOSTEP_SERVER", "http://127.0.0.1:1/agent/");
    let (status, stdout, stderr) = outcome(command).await;
    assert_eq!((status, stdout.as_str()), (Some(4), ""));
    let expected = "twostep: http://127.0.0.1:1/agent cannot be reached: ";
    assert!(stderr.starts_with(expected) && stderr.contains("twostep serve"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_sent_and_never_printed() {
    let app = TestApp::start_with(noon(), keys_needed()).await;
    let (status, _, stderr) = run_command(&app, &["run", "Hello"]).await;
    assert_eq!(status, Some(1));
    assert!(
        stderr.contains("an API key is required") && stderr.contains("TWOSTEP_KEY"),
        "{stderr}"
    );

    let tenant = twostep::domain::ids::TenantId::DEFAULT;
    let key = app.database.key(tenant, twostep::domain::api_key::Scope::Write).await.reveal();
    let with_key = |args: &[&str]| {
        let mut command = command(&app, args);
        command.env("TWOSTEP_KEY", &key);
        command
    };
    assert_eq!(stdout_of(outcome(with_key(&["run", "Hello"])).await), "It is noon.\n");
    assert_eq!(
        stdout_of(run_command(&app, &["run", "--key", &key, "Hello again"]).await),
        "It is noon.\n"
    );
    let help = stdout_of(outcome(with_key(&["run", "--help"])).await);
    assert!(help.contains("TWOSTEP_KEY") && help.contains("Examples:"), "{help}");
    assert!(!help.contains(&key), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_cancels_the_run_and_waits_until_it_has_settled() {
    let app = TestApp::start(hangs_first()).await;
    let mut child = command(&app, &["run", "hang"]).spawn().unwrap();
    let id = busy_session(&app).await;
    interrupt(&child);
    let status = timeout(COMMAND_TIMEOUT, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(statuses(&app, &id).await, ["cancelled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_exits_at_once() {
    let app = TestApp::start(hangs_first()).await;
    let link = LossyLink::to(&app).await;
    let mut command = command(&app, &["run", "hang"]);
    let mut child = command.env("TWOSTEP_SERVER", &link.url).spawn().unwrap();
    let id = busy_session(&app).await;
    // The cancellation of the first interrupt does not reach the service.
    link.drop_traffic();
    let started = Instant::now();
    let status = loop {
        interrupt(&child);
        match timeout(std::time::Duration::from_millis(300), child.wait()).await {
            Ok(status) => break status.unwrap(),
            Err(_) => assert!(started.elapsed() < COMMAND_TIMEOUT, "the command did not exit"),
        }
    };
    assert_eq!(status.code(), Some(130));
    assert_eq!(statuses(&app, &id).await, ["running"]);
    let cancelled = app.post(&format!("/v1/sessions/{id}/cancel")).send().await.unwrap();
    assert!(cancelled.status().is_success());
    app.has_settled("cancelled", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_response_is_lost_is_accepted_once() {
    let app = TestApp::start(noon()).await;
    let link = LossyLink::to(&app).await;
    link.lose_response();
    let mut command = command(&app, &["run", "What time is it?"]);
    command.env("TWOSTEP_SERVER", &link.url);
    assert_eq!(stdout_of(outcome(command).await), "It is noon.\n");
    assert!(link.has_lost_response());
    let id = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(statuses(&app, &id).await, ["completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_stream_is_resumed_without_lost_or_repeated_events() {
    let app = TestApp::start_with(ring(), asks()).await;
    let link = LossyLink::to(&app).await;
    link.break_after(&["session.status_running", "agent.tool_use", "user.tool_confirmation"]);
    let mut command = command(&app, &["run", "--yes", "--output", "jsonl", "Ring"]);
    command.env("TWOSTEP_SERVER", &link.url);
    let printed = stdout_of(outcome(command).await);
    assert_eq!(link.remaining_breaks(), [""; 0]);
    let seqs: Vec<i64> = printed
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_i64())
        .collect();
    let id = sessions(&app).await[0]["id"].as_str().unwrap().to_owned();
    let all = app.existing_session(&id).events().await;
    assert_eq!(seqs, (1..=all.len().try_into().unwrap()).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_calls_and_the_answer_while_they_stream() {
    let app = TestApp::start(replies(&[
        calls("get_time", json!({})),
        json!({ "content": [{ "type": "text", "text": "First. Second." }],
                "chunk": 7, "hang_after": 4 }),
    ]))
    .await;
    let mut terminal = Terminal::start(&app, &["run", "What time is it?"]);
    terminal.wait_for("· get_time {}").await;
    // The reply of the model stops here and does not finish.
    terminal.wait_for("First.").await;
    terminal.interrupt().await;
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(130), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_of_answers_and_calls_do_not_reach_the_terminal() {
    let answer = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\u{202e}d";
    let name = "\u{1b}[2J.txt";
    let app =
        TestApp::start(replies(&[calls("read_file", json!({ "path": name })), says(answer)])).await;
    let (status, output) = Terminal::start(&app, &["run", "Go"]).exit().await;
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains(r"a\u{1b}]0;title\u{7}b\u{9b}2Jc\u{202e}d"), "{output:?}");
    let unstyled = output.replace("\u{1b}[2m", "").replace("\u{1b}[0m", "");
    let is_control = |c: char| c.is_control() && !matches!(c, '\r' | '\n') || c == '\u{202e}';
    assert!(!unstyled.contains(is_control), "{output:?}");

    let args = ["run", "--output", "json", "Go again"];
    let (_, output) = Terminal::start(&app, &args).exit().await;
    assert!(!output.replace("\r\n", "").contains(is_control), "{output:?}");
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap()["output_text"], answer);
    // Without a terminal, the answer is not escaped.
    let printed = stdout_of(run_command(&app, &["run", "Go on"]).await);
    assert_eq!(printed, format!("{answer}\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_local_needs_no_running_service() {
    let folder = data_dir();
    let mut command =
        binary(&["run", "--local", "--offline", "--workspace", "src", "List the files"]);
    command.env("TWOSTEP_DATA_DIR", folder.path()).env("TWOSTEP_NO_WORKER", "true");
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let (status, stdout, stderr) = outcome(command).await;
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("`config/`"), "{stdout}");
}
