//! The `Bash` tool: its results, its time limit, and that no process outlives its call.

use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::{RequestBuilder, StatusCode};
use sandbox::{Level, Setting};
use serde_json::{Value, json};

use crate::support::machine::HUNG;
use crate::support::{
    PROGRAM, Program, Session, Setup, TestApp, TestDatabase, binary, binary_at, calls, data_dir,
    database, outcome, replies, says,
};

const LOOPBACK: &str = "127.0.0.1:0";

/// The sandbox levels to test: both, unless `TWOSTEP_TEST_SANDBOX` names one of them.
fn settings() -> Vec<(Setting, Level)> {
    let only = std::env::var("TWOSTEP_TEST_SANDBOX").ok();
    let levels = [(Setting::Full, Level::Full), (Setting::Basic, Level::Basic)];
    let is_selected = |level: Level| only.as_ref().is_none_or(|only| only == level.as_str());
    levels.into_iter().filter(|(_, level)| is_selected(*level)).collect()
}

async fn start(setting: Setting, script: Value) -> TestApp {
    TestApp::start_with(script, Setup { bash: setting, ..Setup::default() }).await
}

fn commands(inputs: &[Value]) -> Value {
    let call = |input| json!({ "type": "tool_use", "name": "Bash", "input": input });
    json!({ "content": inputs.iter().map(call).collect::<Vec<_>>() })
}

/// The result of each call of the first round: its text, and whether it is an error.
async fn results(session: &Session<'_>) -> Vec<(String, bool)> {
    let history = session.history().await;
    let blocks = history[2]["message"]["content"].as_array().unwrap().clone();
    let results = blocks.iter().map(|block| {
        let text = block["content"].as_str().unwrap().to_owned();
        (text, block["is_error"] == true)
    });
    results.collect()
}

fn failed(text: &str) -> (String, bool) {
    (format!("<tool_use_error>{text}</tool_use_error>"), true)
}

fn succeeded(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

/// A number of seconds that no other test sleeps, to recognize the processes of this test.
fn unique_seconds(number: u32, level: Level) -> String {
    format!("864{number}.{}{}", level as u8, std::process::id())
}

/// The number of processes that sleep for this number of seconds.
fn sleepers(seconds: &str) -> usize {
    let arguments = |entry: std::io::Result<std::fs::DirEntry>| {
        let arguments = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&arguments).replace('\0', " "))
    };
    let all = std::fs::read_dir("/proc").unwrap().filter_map(arguments);
    all.filter(|arguments| arguments.contains(&format!("sleep {seconds}"))).count()
}

async fn wait_until(failure: &str, limit: Duration, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < deadline, "{failure}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A command with two sleeping processes; one is in a session of its own and ignores `SIGTERM`.
fn sleeping_command(seconds: &str) -> String {
    format!("echo begun; (setsid sh -c 'trap \"\" TERM; sleep {seconds}; :' &); sleep {seconds}; :")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_returns_its_output_and_its_exit_code() {
    for (setting, level) in settings() {
        let round = commands(&[
            json!({ "command": "echo out; echo err >&2", "description": "Prints two lines" }),
            json!({ "command": "printf 'no end of line'; exit 3" }),
            json!({ "command": "printf 'a\\0b\\xff' > made; cat made" }),
            json!({ "command": "true" }),
        ]);
        let app = start(setting, replies(&[round, says("Done.")])).await;
        let session = app.session().await;
        assert_eq!(session.ask("go").await["output_text"], "Done.");
        let expected = [
            succeeded("stdout:\nout\nstderr:\nerr\nexit code: 0"),
            failed("stdout:\nno end of line\nstderr:\nexit code: 3"),
            succeeded("stdout:\na\u{fffd}b\u{fffd}\nstderr:\nexit code: 0"),
            succeeded("stdout:\nstderr:\nexit code: 0"),
        ];
        assert_eq!(results(&session).await, expected);
        let levels: Vec<Option<String>> = sqlx::query_scalar("SELECT sandbox FROM tool_calls")
            .fetch_all(&app.database.pool(1))
            .await
            .unwrap();
        assert_eq!(levels, vec![Some(level.as_str().to_owned()); 4]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_and_the_file_have_the_beginning_and_the_end_of_large_output() {
    for (setting, _) in settings() {
        let command = "printf first; head -c 3000000 /dev/zero | tr '\\0' x; printf last";
        let round = calls("Bash", json!({ "command": command }));
        let app = start(setting, replies(&[round, says("Much.")])).await;
        let session = app.session().await;
        session.ask("go").await;
        let (text, is_error) = results(&session).await.remove(0);
        assert!(!is_error);
        let parts = |half: usize| {
            let (first, last) = ("x".repeat(half - 5), "x".repeat(half - 4));
            let omitted = 3_000_009 - 2 * half;
            let printed = format!("first{first}\n[{omitted} bytes omitted]\n{last}last");
            format!("stdout:\n{printed}\nstderr:\nexit code: 0")
        };
        let expected = format!(
            "{}\n[the output without 1951433 bytes in the middle of stdout, which were not kept, is \
             in the file ",
            parts(32 * 1024)
        );
        let file = text.strip_prefix(&expected).and_then(|rest| rest.strip_suffix(']')).unwrap();
        let own = app.folder.path().join("workspaces").join(&session.id);
        let folder = if own.exists() { own } else { app.folder.path().to_owned() };
        let kept = std::fs::read_to_string(folder.join(file)).unwrap();
        assert!(kept == parts(512 * 1024), "{}", kept.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_has_the_complete_output_up_to_a_mebibyte_of_each_stream() {
    for (setting, _) in settings() {
        let command = "head -c 1048576 /dev/zero | tr '\\0' x; echo failed >&2; exit 3";
        let round = calls("Bash", json!({ "command": command }));
        let app = start(setting, replies(&[round, says("Much.")])).await;
        let session = app.session().await;
        session.ask("go").await;
        let (text, is_error) = results(&session).await.remove(0);
        assert!(is_error);
        let (_, file) = text.rsplit_once("[the complete output is in the file ").unwrap();
        let file = file.strip_suffix("]</tool_use_error>").unwrap();
        let own = app.folder.path().join("workspaces").join(&session.id);
        let folder = if own.exists() { own } else { app.folder.path().to_owned() };
        let kept = std::fs::read_to_string(folder.join(file)).unwrap();
        let whole = format!("stdout:\n{}\nstderr:\nfailed\nexit code: 3", "x".repeat(1 << 20));
        assert!(kept == whole, "{}", kept.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_times_out_is_killed_and_its_output_is_returned() {
    for (setting, level) in settings() {
        let seconds = unique_seconds(1, level);
        let round =
            calls("Bash", json!({ "command": sleeping_command(&seconds), "timeout": 2000 }));
        let app = start(setting, replies(&[round, says("Too slow.")])).await;
        let session = app.session().await;
        let started = Instant::now();
        session.ask("go").await;
        // Without the time limit of the call, that of all commands is two minutes.
        assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
        assert_eq!(sleepers(&seconds), 0);
        let expected = "the command and its processes were terminated after 2000 ms; a part of the \
                        work may have been done\nstdout:\nbegun\nstderr:\n";
        assert_eq!(results(&session).await, [failed(expected)]);
        let events = session.events().await;
        let result = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
        assert_eq!(result["error_type"], "TIMEOUT");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_run_kills_its_command() {
    for (setting, level) in settings() {
        let seconds = unique_seconds(2, level);
        let round = calls("Bash", json!({ "command": sleeping_command(&seconds) }));
        let script = json!({ "conversations": [
            { "when": "go", "replies": [round] },
            { "replies": [says("Still here.")] },
        ], "otherwise": "refuse" });
        let app = start(setting, script).await;
        let session = app.session().await;
        let run = session.post(json!({ "content": "go" })).await;
        wait_until("the command did not start", HUNG, || sleepers(&seconds) >= 2).await;
        session.cancel(&run).await;
        wait_until("the command still runs", HUNG, || sleepers(&seconds) == 0).await;
        assert_eq!(session.settled(&run).await["status"], "cancelled");
        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    }
}

/// Starts a service in a process of its own, with this sandbox level.
async fn serve(program: &Path, folder: &Path, database: &TestDatabase, level: Level) -> Program {
    let mut command = binary_at(program, &["serve", "--offline", "--bind", LOOPBACK]);
    command
        .args(["--bash", level.as_str(), "--default-tools", "Bash"])
        .args(["--permission-mode", "bypass", "--allow-bypass", "true", "--script"])
        .arg(folder.join("script.json"))
        .arg("--data-dir")
        .arg(folder)
        .env("DATABASE_URL", database.url());
    Program::serve(command).await
}

/// A request that sends a message to a new session.
async fn message(program: &Program) -> RequestBuilder {
    // Fails when another test of this process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let sessions = format!("{}/v1/sessions", program.url);
    let session: Value = client.post(&sessions).send().await.unwrap().json().await.unwrap();
    let messages = format!("{sessions}/{}/messages", session["id"].as_str().unwrap());
    client.post(messages).json(&json!({ "content": "go" }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_leaves_no_process() {
    for (_, level) in settings() {
        let seconds = unique_seconds(3, level);
        let round = calls("Bash", json!({ "command": sleeping_command(&seconds) }));
        let (folder, database) = (data_dir(), database().await);
        std::fs::write(folder.path().join("script.json"), replies(&[round]).to_string()).unwrap();
        let program = serve(Path::new(PROGRAM), folder.path(), &database, level).await;
        let accepted = message(&program).await.send().await.unwrap();
        assert_eq!(accepted.status(), StatusCode::ACCEPTED);
        wait_until("the command did not start", HUNG, || sleepers(&seconds) >= 2).await;
        program.end_by(rustix::process::Signal::KILL).await;
        wait_until("the command still runs", HUNG, || sleepers(&seconds) == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_runs_commands_after_its_executable_is_deleted() {
    for (_, level) in settings() {
        let (folder, database) = (data_dir(), database().await);
        let round = calls("Bash", json!({ "command": "echo here" }));
        let script = replies(&[round, says("{{results}}")]).to_string();
        std::fs::write(folder.path().join("script.json"), script).unwrap();
        let copy = folder.path().join("twostep");
        std::fs::copy(PROGRAM, &copy).unwrap();
        let program = serve(&copy, folder.path(), &database, level).await;
        std::fs::remove_file(&copy).unwrap();
        let run = message(&program).await.header("prefer", "wait=30").send().await;
        let run: Value = run.unwrap().json().await.unwrap();
        assert_eq!(run["output_text"], "stdout:\nhere\nstderr:\nexit code: 0", "{level}: {run}");
        program.end_by(rustix::process::Signal::KILL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_by_commands_fail_and_the_session_still_works() {
    for (setting, level) in settings() {
        let outside = data_dir();
        let secret = outside.path().join("secret");
        std::fs::write(&secret, "CANARY").unwrap();
        let secret = secret.display();
        let round = commands(&[
            json!({ "command": format!("cat {secret}") }),
            json!({ "command": format!("ln -s {secret} link && cat link") }),
            json!({ "command": format!("echo x > {secret}") }),
            json!({ "command": "tr '\\0' '\\n' < /proc/$PPID/environ; env | grep -c PATH" }),
            json!({ "command": "kill -9 -1; echo x > /dev/tcp/127.0.0.1/22" }),
        ]);
        let app = start(setting, replies(&[round, says("Nothing.")])).await;
        let session = app.session().await;
        assert_eq!(session.ask("go").await["output_text"], "Nothing.", "{level}");
        let results = results(&session).await;
        assert_eq!(results.iter().filter(|(_, is_error)| *is_error).count(), 4, "{results:?}");
        assert!(!results.iter().any(|(text, _)| text.contains("CANARY")), "{results:?}");
        assert_eq!(std::fs::read_to_string(outside.path().join("secret")).unwrap(), "CANARY");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_is_not_available_unless_the_operator_enables_it() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let tools: Value = app.get("/v1/tools").send().await.unwrap().json().await.unwrap();
    let names = tools["data"].as_array().unwrap().iter().map(|tool| tool["name"].clone());
    assert!(!names.collect::<Vec<_>>().contains(&json!("Bash")));
    let refused = app.post("/v1/sessions").json(&json!({ "tools": ["Bash"] })).send().await;
    assert_eq!(refused.unwrap().status(), StatusCode::UNPROCESSABLE_ENTITY);
    let ready: Value = app.get("/readyz").send().await.unwrap().json().await.unwrap();
    assert_eq!(ready["checks"].get("sandbox"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_level_is_reported_and_the_tool_is_listed() {
    for (setting, level) in settings() {
        let app = start(setting, replies(&[says("Hello.")])).await;
        let ready: Value = app.get("/readyz").send().await.unwrap().json().await.unwrap();
        assert_eq!(ready["checks"]["sandbox"], json!({ "status": "ok", "detail": level.as_str() }));
        let tools: Value = app.get("/v1/tools").send().await.unwrap().json().await.unwrap();
        let tools = tools["data"].as_array().unwrap();
        let bash = tools.iter().find(|tool| tool["name"] == "Bash").unwrap();
        let fields = json!([bash["class"], bash["timing"], bash["deadline_ms"], bash["parallel"]]);
        assert_eq!(fields, json!(["effect", "variable", 120_000, false]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_refuses_the_basic_level_with_a_shared_workspace() {
    let database = database().await;
    let mut command = binary(&["serve", "--offline", "--bind", LOOPBACK, "--bash", "basic"]);
    command.args(["--shared-workspace", "/tmp"]).env("DATABASE_URL", database.url());
    let (status, _, stderr) = outcome(command).await;
    assert_eq!(status, Some(1), "{stderr}");
    let last = stderr.lines().last().unwrap();
    assert!(last.contains("--shared-workspace") && last.contains(".git/hooks"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_sandbox_reports_the_levels_that_work() {
    let (status, stdout, _) = outcome(binary(&["doctor", "sandbox", "--json"])).await;
    let facts: Value = serde_json::from_str(&stdout).unwrap();
    let works: Vec<(&str, bool)> = facts["levels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["level"].as_str().unwrap(), entry["works"] == true))
        .collect();
    for (_, level) in settings() {
        assert!(works.contains(&(level.as_str(), true)), "{stdout}");
    }
    assert_eq!(status, Some(0));
    let (status, stdout, _) = outcome(binary(&["doctor", "sandbox"])).await;
    assert_eq!(status, Some(0));
    let auto = format!("auto              {}", facts["auto"].as_str().unwrap());
    assert!(stdout.lines().any(|line| line == auto), "{stdout}");
}
