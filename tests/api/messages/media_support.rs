//! Images and PDFs are refused before they enter the history if the model does not accept them.

use std::sync::Arc;

use serde_json::{Value, json};
use twostep::domain::model::{Capabilities, Models};
use twostep::domain::provider::Provider;
use twostep::service::ModelRules;

use crate::support::media::{base64, image_at, pdf, pixel};
use crate::support::{Setup, TestApp, asks, calls_as, problem, replies, says};

/// Starts a service whose model accepts images, PDFs, both or neither.
async fn app(script: Value, image_input: bool, pdf_input: bool) -> TestApp {
    let known = Capabilities {
        image_input: Some(image_input),
        pdf_input: Some(pdf_input),
        ..Capabilities::default()
    };
    let models = Models::new(Provider::Anthropic, [("simulator".to_owned(), known)].into());
    let model_rules = ModelRules { models: Arc::new(models), ..ModelRules::default() };
    TestApp::start_with(script, Setup { model_rules, ..asks() }).await
}

fn document(source: &Value) -> Value {
    json!({ "type": "document", "source": source })
}

/// Content with every form of images and PDFs, and with blocks that every model accepts.
fn everything() -> Value {
    let text = json!({ "type": "text", "text": "Look." });
    json!([
        text,
        image_at("https://example.org/door.png"),
        document(&base64("application/pdf", &pdf(1))),
        document(&json!({ "type": "content", "content": [text, pixel()] })),
        document(&json!({ "type": "url", "url": "https://example.org/plan.pdf" })),
        document(&json!({ "type": "text", "media_type": "text/plain", "data": "A door." })),
    ])
}

fn errors(what: &str, pointers: &[&str]) -> Vec<Value> {
    let message = format!("is {what}, which simulator does not accept");
    pointers.iter().map(|pointer| json!({ "pointer": pointer, "message": message })).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_media_is_refused_with_pointers() {
    let images = errors("an image", &["/content/1", "/content/3/source/content/1"]);
    let pdfs = errors("a PDF", &["/content/2", "/content/4"]);
    for ((takes_images, takes_pdfs), expected) in [((false, true), images), ((true, false), pdfs)] {
        let app = app(replies(&[says("Yes.")]), takes_images, takes_pdfs).await;
        let session = app.session().await;
        let message = json!({ "content": everything() });
        let response = session.message(&message).send().await.unwrap();
        let refused = problem(response, 422, "validation_failed").await;
        assert_eq!(refused["errors"], json!(expected));
        let plain = everything()[5].clone();
        assert_eq!(session.ask_with(json!({ "content": [plain] })).await["output_text"], "Yes.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_client_tools_follow_the_same_rules() {
    let door = json!({ "name": "open_door", "description": "Opens a door.", "client": true,
                       "input_schema": { "type": "object" } });
    let call = calls_as(&[("toolu_1", "open_door", json!({}))]);
    let app = app(replies(&[call, says("It is open.")]), false, false).await;
    let session = app.session_with(json!({ "tools": [door] })).await;
    let run = session.ask("Open it").await;
    let result = |content: Value| json!([{ "tool_use_id": "toolu_1", "content": content }]);
    let response = session.submit_results(&result(everything())).send().await.unwrap();
    let problem = problem(response, 422, "validation_failed").await;
    let pointers = problem["errors"].as_array().unwrap().iter();
    let pointers: Vec<&str> = pointers.map(|error| error["pointer"].as_str().unwrap()).collect();
    let at = ["1", "2", "3/source/content/1", "4"].map(|at| format!("/results/0/content/{at}"));
    assert_eq!(pointers, at);
    session.accepted(session.submit_results(&result(json!("Done.")))).await;
    assert_eq!(session.settled(&run).await["output_text"], "It is open.");
}
