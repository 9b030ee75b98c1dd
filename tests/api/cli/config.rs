//! `twostep config`, `twostep completions` and `twostep version`.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{outcome_with_stdin, stdout_of};
use crate::support::{TestApp, binary, data_dir, outcome, replies, says};

/// The printed entry of an option or a variable.
fn entry<'a>(options: &'a [Value], name: &str) -> &'a Value {
    let matches = |option: &&Value| option["option"] == name || option["variable"] == name;
    options.iter().find(matches).unwrap_or_else(|| panic!("{name} is not printed"))
}

fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// `config print` with some options as flags and others as variables.
fn print(more: &[&str]) -> Command {
    let flags = ["--bind", "127.0.0.1:9", "--database-url", "postgres://me:hunter2@host/db"];
    let mut command = binary(&[&["config", "print"], &flags[..], more].concat());
    command.env("TWOSTEP_SLOTS", "7").env("TWOSTEP_DEFAULT_TOOLS", "get_time,list_files");
    command
        .env("ANTHROPIC_API_KEY", "hunter2")
        .env("TWOSTEP_RECORDS_URL", "postgres://hunter2@host/x");
    command.env("ANTHROPIC_BASE_URL", "https://me:hunter2@host/v2");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn every_option_is_printed_with_its_value_and_source() {
    let options = objects(&stdout_of(outcome(print(&["--json"])).await));
    let printed = |option: &str, variable: &str, value: &str, from: &str| json!({ "option": option, "variable": variable, "value": value, "from": from });
    for expected in [
        printed("--bind", "TWOSTEP_BIND", "127.0.0.1:9", "flag"),
        printed("--slots", "TWOSTEP_SLOTS", "7", "environment"),
        printed("--default-tools", "TWOSTEP_DEFAULT_TOOLS", "get_time,list_files", "environment"),
        printed("--max-queued", "TWOSTEP_MAX_QUEUED", "1000", "default"),
        printed("--log-format", "TWOSTEP_LOG_FORMAT", "text", "default"),
        printed("--database-url", "DATABASE_URL", "***", "flag"),
        printed("--records-url", "TWOSTEP_RECORDS_URL", "***", "environment"),
        printed("--anthropic-base-url", "ANTHROPIC_BASE_URL", "https://***@host/v2", "environment"),
    ] {
        assert_eq!(*entry(&options, expected["option"].as_str().unwrap()), expected);
    }
    let key = json!({ "variable": "ANTHROPIC_API_KEY", "value": "***", "from": "environment" });
    assert_eq!(*entry(&options, "ANTHROPIC_API_KEY"), key);
    assert_eq!(entry(&options, "OPENAI_API_KEY")["value"], Value::Null);
    assert_eq!(entry(&options, "--model")["value"], Value::Null);

    let help = stdout_of(outcome(binary(&["serve", "--help"])).await);
    let flags = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
    let names = flags.filter(|word| word[2..].chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    for name in names.filter(|name| !matches!(*name, "--help" | "--version")) {
        entry(&options, name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_printed() {
    for more in [&[][..], &["--json"]] {
        let (status, stdout, stderr) = outcome(print(more)).await;
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
        assert!(!stdout.contains("hunter2"), "{stdout}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_secret_can_be_in_a_file() {
    let folder = data_dir();
    let file = folder.path().join("secret");
    std::fs::write(&file, "postgres://planted-1@host/db\n").unwrap();
    let printed = objects(&stdout_of(outcome(binary(&["config", "print", "--json"])).await));
    let is_secret = |option: &&Value| option["option"].is_null();
    let mut secrets: Vec<&str> =
        printed.iter().filter(is_secret).filter_map(|option| option["variable"].as_str()).collect();
    assert!(secrets.contains(&"TWOSTEP_BOOTSTRAP_KEY"), "{secrets:?}");
    secrets.extend(["DATABASE_URL", "TWOSTEP_RECORDS_URL"]);
    let mut print = binary(&["config", "print", "--json"]);
    for name in &secrets {
        print.env(format!("{name}_FILE"), &file);
    }
    let (status, stdout, stderr) = outcome(print).await;
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let printed = objects(&stdout);
    for name in secrets {
        let option = entry(&printed, &format!("{name}_FILE"));
        let expected = (&json!("***"), &json!("environment"));
        assert_eq!((&option["value"], &option["from"]), expected, "{name}");
    }

    let check = |name: &str, more: (&str, &str)| {
        let mut command = binary(&["config", "check", "--bind", "127.0.0.1:9"]);
        command.env(name, &file).env(more.0, more.1);
        outcome(command)
    };
    let (status, _, stderr) = check("ANTHROPIC_API_KEY_FILE", ("LANG", "C")).await;
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let (status, _, stderr) = check("ANTHROPIC_API_KEY_FILE", ("ANTHROPIC_API_KEY", "x")).await;
    assert_eq!((status, stderr.contains("set only one of them")), (Some(1), true), "{stderr}");
    std::fs::remove_file(&file).unwrap();
    let (status, _, stderr) = check("ANTHROPIC_API_KEY_FILE", ("LANG", "C")).await;
    assert_eq!((status, stderr.contains("ANTHROPIC_API_KEY_FILE")), (Some(1), true), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_a_password_breaks_is_refused_with_the_remedy() {
    let mut check = binary(&["config", "check", "--offline", "--bind", "127.0.0.1:9"]);
    check.env("DATABASE_URL", "postgres://me:planted/1=@host/db");
    let (status, _, stderr) = outcome(check).await;
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("PGPASSWORD") && !stderr.contains("planted"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn config_check_starts_nothing() {
    let folder = data_dir();
    let data = folder.path().join("data");
    let mut check = binary(&["config", "check", "--offline", "--bind", "127.0.0.1:9"]);
    check.env("TWOSTEP_DATA_DIR", &data);
    let expected = "the configuration is valid; the address is 127.0.0.1:9\n";
    assert_eq!(stdout_of(outcome(check).await), expected);
    assert!(!data.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn config_check_reports_invalid_options() {
    let folder = data_dir();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let prices = write("prices.json", r#"{"model":{"input":"much"}}"#);
    let rules = write("rules.json", r#"{"rules":[{"tool":"Bash","decision":"perhaps"}]}"#);
    let script = write("script.json", r#"{"conversation":[]}"#);
    let endpoint = |name: &str, kind: &str| {
        json!({ "name": name, "description": "Books a room.", "url": "https://example.com/",
                "input_schema": { "type": kind } })
    };
    let endpoints =
        |name: &str, tools: &[Value]| write(name, &json!({ "tools": tools }).to_string());
    let taken = endpoints("taken.json", &[endpoint("get_time", "object")]);
    let odd = endpoints("odd.json", &[endpoint("a room", "object")]);
    let list = endpoints("list.json", &[endpoint("room", "array")]);
    std::fs::create_dir(folder.path().join("agents")).unwrap();
    write("agents/clock.json", r#"{"tools":["no_such_tool"]}"#);
    let agents = folder.path().join("agents").to_str().unwrap().to_owned();
    for (args, named) in [
        (["--offline", "--prices", &*prices], ["prices.json", "prices"]),
        (["--offline", "--permission-rules", &*rules], ["rules.json", "perhaps"]),
        (["--offline", "--script", &*script], ["script.json", "conversation"]),
        (["--offline", "--http-tools", &*taken], ["taken.json", "get_time"]),
        (["--offline", "--http-tools", &*odd], ["odd.json", "a room"]),
        (["--offline", "--http-tools", &*list], ["list.json", "room"]),
        (["--offline", "--agents", &*agents], ["clock.json", "no_such_tool"]),
        (["--offline", "--bind", "0.0.0.0:1"], ["0.0.0.0:1", "--auth"]),
        (["--slots", "3", "--no-worker=false"], ["ANTHROPIC_API_KEY", "--offline"]),
    ] {
        let (status, stdout, stderr) =
            outcome(binary(&[&["config", "check"], &args[..]].concat())).await;
        assert_eq!((status, stdout.as_str()), (Some(1), ""), "{args:?}");
        assert!(named.iter().all(|name| stderr.contains(name)), "{args:?}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_variable_is_reported() {
    let mut check = binary(&["config", "check", "--offline"]);
    check.env("TWOSTEP_SLOT", "7").env("TWOSTEP_KEY", "hunter2");
    let (status, _, stderr) = outcome(check).await;
    let expected = "twostep: TWOSTEP_SLOT is set, but no option reads it\n";
    assert_eq!((status, stderr.as_str()), (Some(0), expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn former_spellings_of_options_and_variables_set_the_same_values() {
    for (option, variable, old_option, old_variable, value) in [
        (
            "--default-tools",
            "TWOSTEP_DEFAULT_TOOLS",
            "--session-tools",
            "TWOSTEP_SESSION_TOOLS",
            "get_time",
        ),
        ("--available-tools", "TWOSTEP_AVAILABLE_TOOLS", "--tools", "TWOSTEP_TOOLS", "get_time"),
        (
            "--shared-workspace",
            "TWOSTEP_SHARED_WORKSPACE",
            "--workspace",
            "TWOSTEP_WORKSPACE",
            "/tmp",
        ),
        (
            "--session-workspaces",
            "TWOSTEP_SESSION_WORKSPACES",
            "--workspaces",
            "TWOSTEP_WORKSPACES",
            "/tmp",
        ),
        (
            "--permission-rules",
            "TWOSTEP_PERMISSION_RULES",
            "--permissions",
            "TWOSTEP_PERMISSIONS",
            "r.json",
        ),
    ] {
        let print = |args: &[&str]| binary(&[&["config", "print", "--json"], args].concat());
        let value_of = |lines: String| entry(&objects(&lines), option)["value"].clone();
        for spelling in [option, old_option] {
            let printed = stdout_of(outcome(print(&[spelling, value])).await);
            assert_eq!(value_of(printed), value, "{spelling}");
        }
        for name in [variable, old_variable] {
            let mut command = print(&[]);
            command.env(name, value);
            assert_eq!(value_of(stdout_of(outcome(command).await)), value, "{name}");
        }
        // The new variable overrides the former one.
        let mut both = print(&[]);
        both.env(variable, value).env(old_variable, "other");
        let (_, printed, _) = outcome(both).await;
        assert_eq!(value_of(printed), value, "{variable}");
        let help = stdout_of(outcome(binary(&["serve", "--help"])).await);
        assert!(
            !help.contains(&format!("{old_option} "))
                && !help.contains(&format!("{old_variable}=")),
            "{help}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_options_page_lists_exactly_the_options_of_serve() {
    let printed = objects(&stdout_of(outcome(binary(&["config", "print", "--json"])).await));
    let of_serve: BTreeSet<&str> =
        printed.iter().filter_map(|option| option["option"].as_str()).collect();
    let page = include_str!("../../../docs/options.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `--"));
    let names: Vec<String> =
        rows.filter_map(|row| Some(format!("--{}", row.split_once('`')?.0))).collect();
    let listed: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(listed, of_serve);
}

#[tokio::test(flavor = "multi_thread")]
async fn shells_complete_commands() {
    let bash = stdout_of(outcome(binary(&["completions", "bash"])).await);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "-s"]).stderr(Stdio::piped());
    let complete = "COMP_WORDS=(twostep ses) COMP_CWORD=1\n_twostep twostep ses twostep\n\
                  printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    let completed = outcome_with_stdin(shell, &format!("{bash}\n{complete}")).await;
    assert_eq!(stdout_of(completed), "sessions\n");
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout_of(outcome(binary(&["completions", shell])).await);
        assert!(script.contains("sessions") && script.contains("twostep"), "{script}");
        // The hidden command with which the program starts its sandbox is not offered.
        let words = script.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(!words.into_iter().any(|word| word == "__sandbox"), "{script}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_is_printed_as_text_and_json() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(stdout_of(outcome(binary(&["version"])).await), format!("twostep {version}\n"));
    let printed = stdout_of(outcome(binary(&["version", "--json"])).await);
    let schema = twostep::store::MIGRATIONS.iter().map(|migration| migration.version).max();
    let expected = json!({ "name": "twostep", "version": version, "schema": schema });
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn config_check_live_asks_the_model_for_one_word() {
    let check = |more: &[&str]| {
        let args = ["config", "check", "--live", "--bind", "127.0.0.1:9"];
        binary(&[&args, more].concat())
    };
    let (status, stdout, stderr) = outcome(check(&["--offline"])).await;
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let answered = stdout.lines().nth(1).unwrap_or_default();
    assert!(answered.starts_with("the simulator (anthropic) answered for the model"), "{stdout}");
    let mut without_worker = check(&["--offline", "--no-worker"]);
    without_worker.env("DATABASE_URL", "postgres://127.0.0.1:9/twostep");
    let (status, _, stderr) = outcome(without_worker).await;
    assert_eq!((status, stderr.contains("--live needs")), (Some(1), true), "{stderr}");

    let error = json!({ "type": "authentication_error", "message": "invalid x-api-key" });
    let app = TestApp::start(replies(&[json!({ "status": 401, "error": error })])).await;
    let of_server = |more: &[&str]| {
        let mut check = check(more);
        check.env("ANTHROPIC_BASE_URL", app.simulator.base_url()).env("ANTHROPIC_API_KEY", "k");
        outcome(check)
    };
    for (model, named) in [
        ("claude-sonnet-5-5", ["authentication_error", "invalid x-api-key"]),
        ("no-such-model", ["not_found_error", "model: no-such-model"]),
    ] {
        if model == "no-such-model" {
            app.play(&replies(&[says("OK")]));
        }
        let (status, stdout, stderr) = of_server(&["--model", model]).await;
        assert_eq!((status, stdout.lines().count()), (Some(1), 1), "{stdout}{stderr}");
        let server = app.simulator.base_url();
        for words in named.into_iter().chain([model, server.as_str(), "; "]) {
            assert!(stderr.contains(words), "{words}: {stderr}");
        }
    }
    let (status, stdout, _) = of_server(&[]).await;
    assert_eq!((status, stdout.contains("claude-sonnet-5-5 in ")), (Some(0), true), "{stdout}");
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_token_is_sent_to_the_model_server_if_there_is_no_key() {
    let app = TestApp::start(replies(&[says("OK")])).await;
    for (key, sent) in [(None, [None, Some("Bearer token")]), (Some("k"), [Some("k"), None])] {
        let mut check = binary(&["config", "check", "--live", "--bind", "127.0.0.1:9"]);
        check.env("ANTHROPIC_BASE_URL", app.simulator.base_url());
        check.env("ANTHROPIC_AUTH_TOKEN", "token").envs(key.map(|key| ("ANTHROPIC_API_KEY", key)));
        let (status, _, stderr) = outcome(check).await;
        assert_eq!(status, Some(0), "{stderr}");
        let upstream = app.upstream();
        let headers = &upstream.requests.last().unwrap().headers;
        let received = ["x-api-key", "authorization"].map(|name| headers.get(name));
        assert_eq!(received.map(|value| value.map(|value| value.to_str().unwrap())), sent);
    }
    app.stop_unchecked().await;
}
