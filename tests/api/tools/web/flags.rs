//! The options of `serve` that enable tools which access the web.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Program, binary, data_dir, database, outcome};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn write_tools_file(folder: &Path, change: &Value) -> String {
    let mut tool = json!({
        "name": "cancel_order", "description": "Cancels an order.",
        "input_schema": { "type": "object" }, "url": "https://tools.example.com/cancel",
        "secret": SECRET,
    });
    tool.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let file = folder.join("tools.json");
    std::fs::write(&file, json!({ "tools": [tool] }).to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn serve(database: &str, more: &[&str]) -> Command {
    let defaults = ["serve", "--offline", "--bind", "127.0.0.1:0", "--database-url", database];
    binary(&[&defaults, more].concat())
}

async fn names(program: &Program) -> Vec<String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let tools = client.get(format!("{}/v1/tools", program.url)).send().await.unwrap();
    let tools: Value = tools.json().await.unwrap();
    let tools = tools["data"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_access_the_web_exist_only_if_the_operator_enables_them() {
    let (folder, database) = (data_dir(), database().await);
    let file = write_tools_file(folder.path(), &json!({}));
    let web_tools = ["WebFetch", "WebSearch", "web_search", "cancel_order"];

    let program = Program::serve(serve(&database.url(), &[])).await;
    let defaults = names(&program).await;
    assert!(web_tools.iter().all(|name| !defaults.contains(&(*name).to_owned())), "{defaults:?}");
    program.terminate().await;

    let all = ["--web-hosts", "public", "--search", "searxng", "--search-url", "http://searx:8888"];
    let all = [&all[..], &["--http-tools", &file]].concat();
    let program = Program::serve(serve(&database.url(), &all)).await;
    assert_eq!(names(&program).await, [defaults, web_tools.map(str::to_owned).to_vec()].concat());
    program.terminate().await;

    let few =
        [&all[..], &["--available-tools", "cancel_order,WebSearch,read_file,get_time"]].concat();
    let mut command = serve(&database.url(), &few);
    command.env("TWOSTEP_SEARCH_KEY", "planted-search-key").env("TWOSTEP_SEARCH", "brave");
    let program = Program::serve(command).await;
    assert_eq!(names(&program).await, ["read_file", "get_time", "WebSearch", "cancel_order"]);
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_refuses_an_invalid_option_for_the_web_and_names_it() {
    let (folder, database) = (data_dir(), database().await);
    let twice = write_tools_file(folder.path(), &json!({ "name": "read_file" }));
    let message = "two tools have the name read_file";
    for (options, part) in [
        (vec!["--web-hosts", "https://a"], "--web-hosts is not a list of hosts"),
        (vec!["--search", "searxng"], "--search searxng needs --search-url"),
        (vec!["--search", "brave"], "set TWOSTEP_SEARCH_KEY"),
        (vec!["--search", "brave", "--search-url", "ftp://a"], "not the URL of a web server"),
        (vec!["--search-url", "http://a"], "--search"),
        (vec!["--http-tools", "/no/such/file"], "/no/such/file cannot be used"),
        (vec!["--http-tools", &twice], message),
    ] {
        let (status, stdout, stderr) = outcome(serve(&database.url(), &options)).await;
        assert!(!matches!(status, Some(0) | None), "{options:?}");
        assert_eq!(stdout, "", "{options:?}");
        assert!(stderr.contains(part), "{options:?}: {stderr}");
    }
    let wrong = write_tools_file(folder.path(), &json!({ "secret": "planted-secret" }));
    let (_, _, stderr) = outcome(serve(&database.url(), &["--http-tools", &wrong])).await;
    assert!(stderr.contains("\"cancel_order\": the secret is not"), "{stderr}");
    assert!(!stderr.contains("planted"), "{stderr}");
}
