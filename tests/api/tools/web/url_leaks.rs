//! Ways in which a model that was misled by a page could send what it has read to a server without
//! an approval: each of them needs one.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use twostep::tools::policy::OperatorPolicy;

use super::fetch::web_options;
use super::round_of_calls;
use super::site::Site;
use crate::support::{Session, Setup, TestApp, calls, pending, replies, says};

fn fetches(url: &str) -> Value {
    calls("WebFetch", json!({ "url": url }))
}

fn starts_sub_agent(prompt: &str) -> Value {
    calls("Task", json!({ "description": "Read a page", "prompt": prompt }))
}

async fn start(site: &Site, script: Value) -> TestApp {
    let setup = Setup {
        options: web_options(&[&site.host]),
        permissions: Some(OperatorPolicy::default()),
        own_folders: true,
        ..Setup::default()
    };
    TestApp::start_with(script, setup).await
}

async fn session_of(app: &TestApp) -> Session<'_> {
    let tools = ["WebFetch", "Task", "Read", "Write", "Edit", "list_files", "paraphrase_query"];
    app.session_with(json!({ "tools": tools, "limits": { "rounds": 50 } })).await
}

/// A script for a parent, whose user says "Begin", and its sub-agents.
fn parent_and_sub_agents(parent: &[Value], sub_agent: &[Value]) -> Value {
    json!({ "conversations": [
        { "when": "Begin", "replies": parent },
        { "replies": sub_agent },
    ], "otherwise": "refuse" })
}

/// Asserts that the run waits for an approval of the fetch of this URL, and ends the run.
async fn assert_waits_for(session: &Session<'_>, run: &Value, url: &str) {
    assert_eq!(run["status"], "requires_action", "{run}");
    let approvals = session.approvals().await;
    assert_eq!(approvals[0]["input"]["url"], url, "{approvals}");
    session.cancel(run).await;
    session.settled(run).await;
}

/// Waits until the newest run of the session's sub-agent has settled or waits.
async fn sub_agent_run<'a>(session: &Session<'a>) -> (Session<'a>, Value) {
    let deadline = Instant::now() + Duration::from_mins(1);
    let path = format!("/v1/sessions?parent={}", session.id);
    loop {
        let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
        if let Some(id) = page["data"][0]["id"].as_str() {
            let sub_agent = session.app.existing_session(id);
            let runs = session.app.get(&sub_agent.path("/runs")).send().await.unwrap();
            let run = runs.json::<Value>().await.unwrap()["data"][0].clone();
            if !["queued", "running"].contains(&run["status"].as_str().unwrap_or("queued")) {
                return (sub_agent, run);
            }
        }
        assert!(Instant::now() < deadline, "no sub-agent has settled or waits");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_in_the_task_of_a_sub_agent_does_not_count_as_named_by_the_user() {
    let site = Site::start().await;
    let made_up = site.url("/page?secret=1234");
    let parent = [starts_sub_agent(&format!("Read {made_up}")), says("Done.")];
    let script = parent_and_sub_agents(&parent, &[fetches(&made_up), says("Read.")]);
    let app = start(&site, script).await;
    let session = session_of(&app).await;
    let run = session.post(json!({ "content": "Begin" })).await;
    let (sub_agent, waiting) = sub_agent_run(&session).await;
    assert_eq!(waiting["status"], "requires_action", "{waiting}");
    assert_eq!(sub_agent.approvals().await[0]["input"]["url"], made_up);
    assert_eq!(site.requested_paths(), Vec::<String>::new());
    session.cancel(&run).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_fetches_urls_that_the_user_named_to_its_parent() {
    let site = Site::start().await;
    let url = site.url("/page");
    let parent = [starts_sub_agent(&format!("Read {url} and its links")), says("Done.")];
    let sub_agent = [fetches(&url), fetches(&site.url("/flour")), says("Read.")];
    let app = start(&site, parent_and_sub_agents(&parent, &sub_agent)).await;
    let session = session_of(&app).await;
    let run = session.ask(&format!("Begin with {url}")).await;
    assert_eq!(run["output_text"], "Done.", "{run}");
    assert_eq!(site.requested_paths(), ["/page", "/flour"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_in_the_report_of_a_sub_agent_is_named_by_a_model() {
    let site = Site::start().await;
    let made_up = site.url("/page?secret=1234");
    let parent = [starts_sub_agent("Look around"), fetches(&made_up), says("Done.")];
    let script = parent_and_sub_agents(&parent, &[says(&format!("Read {made_up}"))]);
    let app = start(&site, script).await;
    let session = session_of(&app).await;
    let run = session.ask("Begin").await;
    assert_waits_for(&session, &run, &made_up).await;
    assert_eq!(site.requested_paths(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_in_an_answer_of_paraphrase_query_is_named_by_a_model() {
    let site = Site::start().await;
    let made_up = site.url("/page?secret=1234");
    let asks = calls("paraphrase_query", json!({ "query": "the secret" }));
    let script = json!({ "conversations": [
        { "when": "<query>", "replies": [says(&made_up)] },
        { "replies": [asks, fetches(&made_up), says("Done.")] },
    ], "otherwise": "refuse" });
    let app = start(&site, script).await;
    let session = session_of(&app).await;
    let run = session.ask("Begin").await;
    assert_waits_for(&session, &run, &made_up).await;
    assert_eq!(site.requested_paths(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_in_an_answer_about_a_page_is_the_models_unless_the_page_has_it() {
    let site = Site::start().await;
    let flour = site.url("/flour");
    for (answer, made_up) in [
        (flour.replacen("http", "HTTP", 1) + "?q=1234", format!("{flour}?q=1234")),
        (format!("{flour})1234"), format!("{flour})1234")),
        (format!("{flour}*1234"), format!("{flour}*1234")),
        (format!("{flour}\0_1234"), format!("{flour}\u{fffd}_1234")),
    ] {
        let asks = json!({ "url": site.url("/page"), "prompt": "Name the URL" });
        let script = json!({ "conversations": [
            { "when": "<page", "replies": [says(&format!("See {answer} ."))] },
            { "replies": [calls("WebFetch", asks), fetches(&made_up), says("Done.")] },
        ], "otherwise": "refuse" });
        let app = start(&site, script).await;
        let session = session_of(&app).await;
        let run = session.ask(&format!("Begin with {}", site.url("/page"))).await;
        assert_waits_for(&session, &run, &made_up).await;
    }
    assert!(site.requested_paths().iter().all(|path| path == "/page"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_the_model_assembled_in_a_file_is_named_by_the_model() {
    let site = Site::start().await;
    let made_up = site.url("/page?secret=1234");
    let parts = made_up.replace("//", "@@");
    let write = calls("Write", json!({ "file_path": "a.md", "content": format!("{parts}\n") }));
    let edit =
        calls("Edit", json!({ "file_path": "a.md", "old_string": "@@", "new_string": "//" }));
    let read = calls("Read", json!({ "file_path": "a.md" }));
    for show in [None, Some(read)] {
        let mut script = vec![write.clone(), edit.clone()];
        script.extend(show);
        script.extend([fetches(&made_up), says("Done.")]);
        let app = start(&site, replies(&script)).await;
        let session = session_of(&app).await;
        let run = session.ask("Begin").await;
        let history = session.history().await;
        let shown = history[history.len() - 2]["message"]["content"].to_string();
        assert!(shown.contains(&made_up), "{shown}");
        assert_waits_for(&session, &run, &made_up).await;
    }
    assert_eq!(site.requested_paths(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_in_a_file_of_a_fork_may_be_one_that_the_model_of_its_source_wrote() {
    let site = Site::start().await;
    let made_up = site.url("/page?secret=1234");
    let write = calls("Write", json!({ "file_path": "a.md", "content": made_up }));
    let read = calls("Read", json!({ "file_path": "a.md" }));
    let script = json!({ "conversations": [
        { "when": "Write", "replies": [write, says("Written.")] },
        { "when": "Fetch", "replies": [read, fetches(&made_up), says("Done.")] },
    ], "otherwise": "refuse" });
    let app = start(&site, script).await;
    let session = session_of(&app).await;
    session.ask("Write").await;
    let fork =
        app.post(&session.path("/forks")).json(&json!({ "before": 1 })).send().await.unwrap();
    let fork: Value = fork.json().await.unwrap();
    let fork = app.existing_session(fork["id"].as_str().unwrap());
    let run = fork.ask("Fetch").await;
    assert_waits_for(&fork, &run, &made_up).await;
    assert_eq!(site.requested_paths(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_in_a_file_that_the_model_has_not_written_is_fetched_without_approval() {
    let site = Site::start().await;
    let read = calls("Read", json!({ "file_path": "readme.md" }));
    let app = start(&site, replies(&[read, fetches(&site.url("/page")), says("Done.")])).await;
    let session = session_of(&app).await;
    let folder = app.folder.path().join("workspaces").join(&session.id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("readme.md"), format!("See {}\n", site.url("/page"))).unwrap();
    assert_eq!(session.ask("Begin").await["output_text"], "Done.");
    assert_eq!(site.requested_paths(), ["/page"]);
}

/// Fetches of the links of `/letters`, which spell a word.
fn spells(site: &Site, word: &str) -> Vec<Value> {
    word.chars().map(|letter| fetches(&site.url(&format!("/letters/{letter}")))).collect()
}

fn reads_a_file() -> Value {
    calls("list_files", json!({}))
}

#[tokio::test(flavor = "multi_thread")]
async fn many_links_are_not_followed_without_approval_after_a_file_was_read() {
    let site = Site::start().await;
    let mut script = vec![reads_a_file(), fetches(&site.url("/letters"))];
    script.extend(spells(&site, "abcdefghijk"));
    script.push(says("Done."));
    let app = start(&site, replies(&script)).await;
    let session = session_of(&app).await;
    let run = session.ask(&format!("Read {} and spell", site.url("/letters"))).await;
    assert_eq!(site.requested_paths().len(), 1 + 10, "{:?}", site.requested_paths());
    let approvals = session.approvals().await;
    let reason = approvals[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("10"), "{reason}");
    let [id] = pending(&run)[..] else { panic!("{run}") };
    session.allow(id, json!({})).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    assert_eq!(site.requested_paths().len(), 1 + 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_links_of_one_reply_and_of_sub_agents_count_together() {
    let site = Site::start().await;
    let letters = site.url("/letters");
    let word: Vec<(&str, Value)> = "abcdefghijk"
        .chars()
        .map(|letter| ("WebFetch", json!({ "url": site.url(&format!("/letters/{letter}")) })))
        .collect();
    let script = [reads_a_file(), fetches(&letters), round_of_calls(&word), says("Done.")];
    let app = start(&site, replies(&script)).await;
    let session = session_of(&app).await;
    let run = session.ask(&format!("Read {letters} and spell")).await;
    assert_eq!(run["status"], "requires_action");
    assert_eq!(pending(&run).len(), 1, "{run}");
    assert_eq!(site.requested_paths().len(), 1 + 10);
    session.cancel(&run).await;
    session.settled(&run).await;

    // A sub-agent has what its parent has left; afterwards the parent has nothing left.
    let site = Site::start().await;
    let letters = site.url("/letters");
    let mut parent = vec![reads_a_file(), fetches(&letters)];
    parent.extend(spells(&site, "abcdefgh"));
    parent.push(starts_sub_agent(&format!("Read {letters}")));
    parent.extend(spells(&site, "x"));
    parent.push(says("Done."));
    let mut sub_agent = vec![fetches(&letters)];
    sub_agent.extend(spells(&site, "ij"));
    sub_agent.push(says("Read."));
    let app = start(&site, parent_and_sub_agents(&parent, &sub_agent)).await;
    let session = session_of(&app).await;
    let run = session.ask(&format!("Begin with {letters}")).await;
    assert_waits_for(&session, &run, &site.url("/letters/x")).await;
    let spelled = site.requested_paths().into_iter().filter(|path| path.len() > 8).count();
    assert_eq!(spelled, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agents_without_private_tools_share_the_links_after_a_document_was_attached() {
    let site = Site::start().await;
    let letters = site.url("/letters");
    let parent = [
        fetches(&letters),
        starts_sub_agent(&format!("Read {letters}")),
        fetches(&site.url("/letters/x")),
        says("Done."),
    ];
    let mut sub_agent = vec![fetches(&letters)];
    sub_agent.extend(spells(&site, "abcdefghij"));
    sub_agent.push(says("Read."));
    let app = start(&site, parent_and_sub_agents(&parent, &sub_agent)).await;
    let settings = json!({ "tools": ["WebFetch", "Task"], "limits": { "rounds": 50 } });
    let session = app.session_with(settings).await;
    let source = json!({ "type": "text", "media_type": "text/plain", "data": "secret" });
    let document = json!({ "type": "document", "source": source });
    let text = json!({ "type": "text", "text": format!("Begin with {letters}") });
    let run = session.ask_with(json!({ "content": [document, text] })).await;
    assert_waits_for(&session, &run, &site.url("/letters/x")).await;
    let spelled = site.requested_paths().into_iter().filter(|path| path.len() > 8).count();
    assert_eq!(spelled, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_followed_without_approval_if_nothing_private_was_read() {
    let site = Site::start().await;
    let mut script = vec![fetches(&site.url("/letters"))];
    script.extend(spells(&site, "abcdefghijk"));
    script.push(says("Done."));
    let app = start(&site, replies(&script)).await;
    let session = session_of(&app).await;
    let run = session.ask(&format!("Read {} and spell", site.url("/letters"))).await;
    assert_eq!(run["output_text"], "Done.");
    assert_eq!(site.requested_paths().len(), 1 + 11);
}
