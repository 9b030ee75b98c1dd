//! URL provenance: `WebFetch` needs an approval for a URL that only the model has named.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use twostep::tools::policy::OperatorPolicy;

use super::fetch::web_options;
use super::site::Site;
use crate::support::{Setup, TestApp, calls, pending, replies, says};

fn fetches(url: &str) -> Value {
    calls("WebFetch", json!({ "url": url }))
}

async fn start(site: &Site, script: &[Value]) -> TestApp {
    let setup = Setup {
        options: web_options(&[&site.host]),
        permissions: Some(OperatorPolicy::default()),
        ..Setup::default()
    };
    TestApp::start_with(replies(script), setup).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_the_user_names_is_fetched_without_approval() {
    let site = Site::start().await;
    let app = start(&site, &[fetches(&site.url("/page")), says("Bread.")]).await;
    let session = app.session().await;
    let run = session.ask(&format!("What is on {}?", site.url("/page#top"))).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Bread.")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_on_a_fetched_page_is_fetched_without_approval() {
    let site = Site::start().await;
    let script = [fetches(&site.url("/page")), fetches(&site.url("/flour")), says("Done.")];
    let app = start(&site, &script).await;
    let session = app.session().await;
    let run = session.ask(&format!("Read {} and what it links to", site.url("/page"))).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(site.requested_paths(), ["/page", "/flour"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_only_the_model_names_waits_for_approval() {
    let site = Site::start().await;
    let made_up = site.url("/page?secret=1234");
    let app = start(&site, &[fetches(&made_up), says("Done.")]).await;
    let session = app.session().await;
    let run = session.ask(&format!("What is on {}?", site.url("/page"))).await;
    assert_eq!(run["status"], "requires_action");
    assert_eq!(site.requested_paths(), Vec::<String>::new());
    let waiting = app.get(&session.path("/approvals")).send().await.unwrap();
    let waiting: Value = waiting.json().await.unwrap();
    assert_eq!(waiting["data"][0]["reason"], "only the model has named this URL");
    let [id] = pending(&run)[..] else { panic!("{run}") };
    session.allow(id, json!({})).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    assert_eq!(site.requested_paths(), ["/page"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_repeats_a_url_of_the_model_gives_it_no_provenance() {
    let site = Site::start().await;
    let made_up = site.url("/page?secret=1234");
    let thought = calls(
        "sequential_thinking",
        json!({
            "thought": format!("I read {made_up}"), "thought_number": 1, "total_thoughts": 1,
            "next_thought_needed": false,
        }),
    );
    let app = start(&site, &[thought, fetches(&made_up), says("Done.")]).await;
    let session = app.session().await;
    let run = session.ask("Think").await;
    let history = session.history().await;
    assert!(history[2]["message"]["content"].to_string().contains(&made_up), "{:?}", history[2]);
    assert_eq!(run["status"], "requires_action");
    session.cancel(&run).await;
    session.settled(&run).await;
    assert_eq!(site.requested_paths(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_allows_a_domain_allows_all_its_urls() {
    let site = Site::start().await;
    let app = start(&site, &[fetches(&site.url("/page")), says("Done.")]).await;
    let rule =
        |domain| json!([{ "tool": "WebFetch", "input": { "url": domain }, "decision": "allow" }]);
    let session = app.session_with(json!({ "permissions": rule("domain:localhost") })).await;
    assert_eq!(session.ask("Read as you may").await["status"], "completed");
    let session = app.session_with(json!({ "permissions": rule("domain:docs.rs") })).await;
    let run = session.ask("Read as you may not").await;
    assert_eq!(run["status"], "requires_action");
    session.cancel(&run).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allowing_a_url_for_the_session_allows_no_other_url() {
    let site = Site::start().await;
    let (one, other) = (site.url("/page"), site.url("/data"));
    let app = start(&site, &[fetches(&one), fetches(&one), fetches(&other), says("Done.")]).await;
    let session = app.session().await;
    let run = session.ask("Read").await;
    let [id] = pending(&run)[..] else { panic!("{run}") };
    session.allow(id, json!({ "remember": "session" })).await;
    let deadline = Instant::now() + Duration::from_mins(1);
    let run = loop {
        let run = session.run(&run).await;
        let is_next = run["status"] == "requires_action" && pending(&run) != [id];
        if is_next {
            break run;
        }
        assert!(Instant::now() < deadline, "{run}");
        sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(run["pending"][0]["input"]["url"], other.as_str());
    session.cancel(&run).await;
    session.settled(&run).await;
}
