//! NUL in a page, in a question about it and in the answer: the run completes, and the model reads
//! the rest of the text.

use serde_json::json;

use super::fetch::web_options;
use super::results;
use super::site::Site;
use crate::support::{Setup, TestApp, calls, says};

#[tokio::test(flavor = "multi_thread")]
async fn nul_in_a_page_a_question_and_an_answer_does_not_fail_the_run() {
    let site = Site::start().await;
    let url = site.url("/nul");
    let asks = calls("WebFetch", json!({ "url": url, "prompt": "How\0 much\u{1}?" }));
    let script = json!({ "conversations": [
        { "when": "<page", "replies": [says("An\0swer.")] },
        { "replies": [asks, calls("WebFetch", json!({ "url": url })), says("Do\0ne.")] },
    ], "otherwise": "refuse" });
    let setup = Setup { options: web_options(&[&site.host]), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    let run = session.ask("Bake").await;
    let end = (&run["status"], &run["output_text"]);
    assert_eq!(end, (&json!("completed"), &json!("Do\u{fffd}ne.")), "{run}");
    assert_eq!(results(&session).await, [(false, format!("{url}\n\nAn\u{fffd}swer."))]);
    let question = &app.upstream().body(1)["messages"][0]["content"][0]["text"];
    let expected = format!(
        "<page url=\"{url}\">\nTake flour.\n</page>\n\nThe question: How\u{fffd} much\u{1}?"
    );
    assert_eq!(question, &json!(expected));
    let history = session.history().await;
    assert_eq!(history[4]["message"]["content"][0]["content"], format!("{url}\n\nTake flour."));
    // The model reads its own call as it wrote it.
    let call = &app.upstream().body(2)["messages"][1]["content"][0]["input"]["prompt"];
    assert_eq!(call, "How\0 much\u{1}?");
    // No final check: the history has a NUL of the model, which SQL cannot read.
    assert_eq!(app.findings().await, Vec::<String>::new());
    app.stop_unchecked().await;
}
