//! A block that the model server has refused before and that a client sends again.

use serde_json::{Value, json};

use crate::support::media::image_at;
use crate::support::{TestApp, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn only_new_replacements_are_reported_and_counted_when_a_block_is_refused_again() {
    let mut script = replies(&[says("I see.")]);
    script["unreadable"] = json!([{ "type": "image", "message": "Could not process image" }]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    for _ in 0..2 {
        let content =
            json!([{ "type": "text", "text": "Look." }, image_at("https://example.org/door.png")]);
        let run = session.ask_with(json!({ "content": content })).await;
        assert_eq!(run["output_text"], "I see.");
    }
    let events = session.events().await;
    let updated = events.iter().filter(|event| event["type"] == "session.updated");
    let reported: Vec<&Value> = updated.map(|event| &event["sent_history"]).collect();
    let replaced = |seq: i32| json!({ "change": "block_replaced", "message_seq": seq, "block": 1 });
    assert_eq!(reported, [&replaced(1), &replaced(3)]);
    let metrics = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let line = r#"twostep_sent_history_changes_total{kind="block_replaced"} 2"#;
    assert!(metrics.lines().any(|it| it == line), "{metrics}");
    let refusals = [0, 2].map(|message| {
        format!("messages.{message}.content.1.image.source: Could not process image")
    });
    app.end_refused(&refusals.each_ref().map(String::as_str));
}
