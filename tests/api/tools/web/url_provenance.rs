//! Addresses that somebody has named are visited, and others only if somebody allows it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use twostep::tools::policy::OperatorPolicy;

use super::fetch::reaching;
use super::site::Site;
use crate::support::{Setup, TestApp, calls, pending, replies, says};

fn fetches(url: &str) -> Value {
    calls("WebFetch", json!({ "url": url }))
}

async fn start(site: &Site, script: &[Value]) -> TestApp {
    let setup = Setup {
        options: reaching(&[&site.host]),
        permissions: Some(OperatorPolicy::default()),
        ..Setup::default()
    };
    TestApp::start_with(replies(script), setup).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_the_user_names_is_visited() {
    let site = Site::start().await;
    let app = start(&site, &[fetches(&site.url("/page")), says("Bread.")]).await;
    let session = app.session().await;
    let run = session.ask(&format!("What is on {}?", site.url("/page#top"))).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Bread.")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_on_a_page_that_was_read_is_visited() {
    let site = Site::start().await;
    let script = [fetches(&site.url("/page")), fetches(&site.url("/flour")), says("Done.")];
    let app = start(&site, &script).await;
    let session = app.session().await;
    let run = session.ask(&format!("Read {} and what it links to", site.url("/page"))).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(site.asked(), ["/page", "/flour"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_the_model_makes_up_waits_for_somebody() {
    let site = Site::start().await;
    let made_up = site.url("/page?secret=1234");
    let app = start(&site, &[fetches(&made_up), says("Done.")]).await;
    let session = app.session().await;
    let run = session.ask(&format!("What is on {}?", site.url("/page"))).await;
    assert_eq!(run["status"], "requires_action");
    assert_eq!(site.asked(), Vec::<String>::new());
    let waiting = app.get(&session.path("/approvals")).send().await.unwrap();
    let waiting: Value = waiting.json().await.unwrap();
    assert_eq!(waiting["data"][0]["reason"], "nobody but the model has named this address");
    let [id] = pending(&run)[..] else { panic!("{run}") };
    session.allow(id, json!({})).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    assert_eq!(site.asked(), ["/page"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_repeats_an_address_does_not_make_it_known() {
    let site = Site::start().await;
    let made_up = site.url("/page?secret=1234");
    let thinks = calls(
        "sequential_thinking",
        json!({
            "thought": format!("I read {made_up}"), "thought_number": 1, "total_thoughts": 1,
            "next_thought_needed": false,
        }),
    );
    let app = start(&site, &[thinks, fetches(&made_up), says("Done.")]).await;
    let session = app.session().await;
    let run = session.ask("Think").await;
    let history = session.history().await;
    assert!(history[2]["message"]["content"].to_string().contains(&made_up), "{:?}", history[2]);
    assert_eq!(run["status"], "requires_action");
    session.cancel(&run).await;
    session.settled(&run).await;
    assert_eq!(site.asked(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_that_a_rule_allows_is_visited_wherever_in_it() {
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
async fn who_allows_an_address_for_the_session_allows_no_other() {
    let site = Site::start().await;
    let (one, other) = (site.url("/page"), site.url("/data"));
    let app = start(&site, &[fetches(&one), fetches(&one), fetches(&other), says("Done.")]).await;
    let session = app.session().await;
    let run = session.ask("Read").await;
    let [id] = pending(&run)[..] else { panic!("{run}") };
    session.allow(id, json!({ "remember": "session" })).await;
    let deadline = Instant::now() + Duration::from_secs(30);
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
