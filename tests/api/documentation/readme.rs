//! The pages of the documentation: transcript, links, lists of routes, codes, events and metrics.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};
use twostep::domain::event::EventBody;

use crate::support::TestApp;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The frames of a stream without the values that differ between runs.
fn normalised(stream: &str) -> Vec<String> {
    let mut frames: Vec<String> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for frame in stream.split("\n\n").filter(|frame| !frame.trim().is_empty()) {
        let (head, data) = frame.split_once("data: ").unwrap();
        let mut data: Value = serde_json::from_str(data).unwrap();
        let text = data["delta"]["content"]["text"].as_str().map(str::to_owned);
        scrub(&mut data, &mut known);
        // The length of each text delta depends on the timing.
        if let Some(text) = text {
            data["delta"]["content"]["text"] = Value::Null;
            let key = format!("{head}{data} ");
            match frames.last_mut().filter(|last| last.starts_with(&key)) {
                Some(last) => last.push_str(&text),
                None => frames.push(format!("{key}{text}")),
            }
        } else {
            frames.push(format!("{head}{data}"));
        }
    }
    frames
}

/// Replaces ids by their order of appearance, times and durations by nothing.
fn scrub(value: &mut Value, known: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if key == "created_at" || key == "duration_ms" {
                    *member = Value::Null;
                }
                scrub(member, known);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| scrub(item, known)),
        Value::String(text) if is_id(text) => {
            let index = known.iter().position(|id| id == text).unwrap_or_else(|| {
                known.push(text.clone());
                known.len() - 1
            });
            *text = format!("id {index}");
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_id(text: &str) -> bool {
    let prefixes = ["ses_", "run_", "msg_", "evt_", "toolu_"];
    prefixes.iter().any(|prefix| text.starts_with(prefix)) && !text.contains(' ')
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_transcript_matches_the_output_of_the_service() {
    let page = fs::read_to_string(root().join("docs/first-steps.md")).unwrap();
    let start = page.find("\nretry: 2000\n").expect("the page has a transcript") + 1;
    let end = start + page[start..].find("\n```").unwrap();
    let command = "Read rust-toolchain.toml and explain it";
    assert!(page[..start].contains(command));

    let app = TestApp::start(json!({ "otherwise": "demo" })).await;
    let toolchain = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    app.write_file("rust-toolchain.toml", &toolchain);
    let system = twostep::config::DEFAULT_SYSTEM;
    let tools = ["read_file", "write_file", "list_files", "get_time"];
    let settings = json!({ "system": system, "max_tokens": 8192, "tools": tools });
    let session = app.session_with(settings).await;
    let response = session
        .message(&json!({ "content": command }))
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    let printed = response.text().await.unwrap();
    let documented = &page[start..end];
    assert_eq!(normalised(&printed), normalised(documented));
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Every Markdown page of the documentation, relative to the root.
fn pages() -> Vec<PathBuf> {
    let folders = ["", "docs"];
    let names = folders.iter().flat_map(|folder| {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        entries.map(|entry| Path::new(folder).join(entry.unwrap().file_name()))
    });
    names.filter(|name| name.extension().is_some_and(|it| it == "md")).collect()
}

/// The text without fenced code.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// The anchor of a heading, as code hosting platforms derive it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    heading.to_lowercase().chars().filter(kept).collect::<String>().trim().replace(' ', "-")
}

fn anchors(text: &str) -> HashSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

fn normalised_path(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(parts.pop(), "{}", path.display()),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => parts.push(part),
        }
    }
    parts
}

/// The relative links of a page: file and anchor, where `""` is the page itself.
fn links(text: &str) -> Vec<(String, String)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target)
        .filter(|target| !target.contains("://"))
        .map(|target| target.split_once('#').unwrap_or((target, "")))
        .map(|(file, anchor)| (file.to_owned(), anchor.to_owned()))
        .collect()
}

#[test]
fn every_link_of_the_documentation_has_a_target() {
    let texts: HashMap<PathBuf, String> =
        pages().into_iter().map(|it| (it.clone(), prose(&page(it.to_str().unwrap())))).collect();
    let mut broken = Vec::new();
    for (path, text) in &texts {
        for (file, anchor) in links(text) {
            let target = match &*file {
                "" => path.clone(),
                file => normalised_path(&path.parent().unwrap().join(file)),
            };
            let has_anchor = anchor.is_empty()
                || texts.get(&target).is_some_and(|text| anchors(text).contains(&anchor));
            if !root().join(&target).exists() || !has_anchor {
                broken.push(format!("{}: {file}#{anchor}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_index_links_every_page() {
    let linked: HashSet<String> =
        links(&page("docs/README.md")).into_iter().map(|it| it.0).collect();
    let in_docs = pages().into_iter().filter_map(|it| {
        it.strip_prefix("docs").ok().map(|name| name.to_str().unwrap().to_owned())
    });
    let missing: Vec<String> =
        in_docs.filter(|name| name != "README.md" && !linked.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Asserts that the page has each of the terms as code.
fn assert_documented<'a>(path: &str, terms: impl IntoIterator<Item = &'a str>) {
    let text = page(path);
    let is_missing = |term: &&str| !text.contains(&format!("`{term}"));
    let missing: Vec<&str> = terms.into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{path} lacks {missing:?}");
}

#[test]
fn the_reference_pages_have_every_route_code_and_event_type() {
    let document: Value = serde_json::from_str(&page("openapi/openapi.json")).unwrap();
    let code = "/components/schemas/Problem/properties/code/enum";
    let codes = document.pointer(code).unwrap().as_array().unwrap();
    assert_documented("docs/errors.md", codes.iter().map(|code| code.as_str().unwrap()));
    assert_documented("docs/events.md", EventBody::KINDS);
    assert_documented(
        "docs/events.md",
        ["event_start", "event_delta", "queue_position", "session.deleted"],
    );
    let routes = document["paths"].as_object().unwrap().keys();
    let text = page("docs/api.md");
    let is_missing = |route: &&String| !text.contains(&route.replace("{session_id}", "{id}"));
    let missing: Vec<&String> = routes.filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/api.md lacks {missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_page_has_every_metric() {
    let app = TestApp::start(json!({ "otherwise": "demo" })).await;
    let metrics = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let names = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    assert_documented("docs/metrics.md", names.filter_map(|line| line.split(' ').next()));
}

#[test]
fn the_readme_has_at_most_8_kb() {
    assert!(page("README.md").len() <= 8192);
}
