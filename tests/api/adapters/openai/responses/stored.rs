//! Responses in the background, and responses that are cancelled or whose connection is lost.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{
    create, events, go_on, kinds, parsed, path, post, read, session_of, success, text,
};
use crate::adapters::openai::runs;
use crate::support::{TestApp, hangs_first, replies, says};

/// The stored response, once it has this status.
async fn reached(app: &TestApp, response: &Value, status: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let now = read(app, response).await;
        if now["status"] == status {
            return now;
        }
        assert!(Instant::now() < deadline, "{now}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_in_the_background_is_read_and_cancelled() {
    let app = TestApp::start(hangs_first()).await;
    let response = create(&app, json!("hang"), json!({ "background": true })).await;
    let status = response["status"].as_str().unwrap();
    assert!(["queued", "in_progress"].contains(&status), "{response}");
    assert_eq!((&response["output"], &response["background"]), (&json!([]), &json!(true)));
    reached(&app, &response, "in_progress").await;
    let next = json!({ "background": true, "previous_response_id": response["id"] });
    let queued = create(&app, json!("Hello"), next).await;
    assert_eq!(read(&app, &queued).await["status"], "queued");
    let cancelled = success(app.post(&format!("{}/cancel", path(&response)))).await;
    assert_eq!((&cancelled["id"], &cancelled["status"]), (&response["id"], &json!("cancelled")));
    let done = reached(&app, &queued, "completed").await;
    assert_eq!(text(&done), "You said Hello.");
    // A response that has ended stays as it is.
    let again = success(app.post(&format!("{}/cancel", path(&done)))).await;
    assert_eq!(again, done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_connection_cancels_the_run_unless_it_is_in_the_background() {
    let words: Vec<String> = (0..40).map(|index| format!("word{index} ")).collect();
    let full = words.concat();
    let mut slow = says(&full);
    slow["chunk"] = json!(7);
    slow["pace_ms"] = json!(25);
    let app = TestApp::start(replies(&[slow])).await;
    for (is_background, message, status) in
        [(false, "One", "cancelled"), (true, "Two", "completed")]
    {
        let others = json!({ "stream": true, "background": is_background });
        let mut stream = post(&app, &json!(message), &others).send().await.unwrap();
        let mut received = String::new();
        while !received.contains("output_text.delta") || !received.ends_with("\n\n") {
            received += std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap();
        }
        drop(stream);
        let mut all = parsed(&received);
        let response = all[0]["response"].clone();
        // The rest of the stream, with the end of the run.
        let last = all.last().unwrap()["sequence_number"].as_u64().unwrap();
        let rest = format!("{}?stream=true&starting_after={last}", path(&response));
        all.extend(events(app.get(&rest)).await);
        assert_eq!(all.last().unwrap()["response"]["status"], status);
        let deltas = all.iter().filter(|it| it["type"] == "response.output_text.delta");
        let joined: String = deltas.map(|it| it["delta"].as_str().unwrap()).collect();
        assert_eq!(joined == full, is_background, "{joined}");
        let item = ["content_part.added", "output_text.delta", "output_text.done"];
        assert!(kinds(&all).windows(3).any(|kinds| kinds == item), "{all:?}");
        assert_eq!(reached(&app, &response, status).await["id"], response["id"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_response_of_a_run_ends_where_it_ended() {
    let call = json!({ "content": [{ "type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {} }] });
    let app = TestApp::start(replies(&[call, says("Done.")])).await;
    let tools = json!({ "tools": [{ "type": "function", "name": "lookup" }] });
    let asked = create(&app, json!("Look"), tools).await;
    let output = json!([{ "type": "function_call_output", "call_id": "toolu_1", "output": "1" }]);
    let answered = go_on(&app, &asked, output).await;
    assert_eq!((text(&asked), text(&answered)), (String::new(), "Done.".to_owned()));
    for response in [&asked, &answered] {
        let stream = events(app.get(&format!("{}?stream=true", path(response)))).await;
        assert_eq!(stream.last().unwrap()["response"]["output"], response["output"]);
    }
    assert_eq!(runs(&app, session_of(&asked)).await.len(), 1);
}
