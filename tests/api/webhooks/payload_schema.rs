//! What a receiver gets is what the OpenAPI document says.

use serde_json::Value;

use super::{Receiver, Webhook, telling};
use crate::support::{TestApp, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_has_the_headers_and_the_body_of_the_document() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), telling()).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    app.session().await.ask("Hello").await;
    receiver.told(1).await;
    let test = app.post(&webhook.path("/test")).send().await.unwrap();
    assert_eq!(test.status(), 202);

    let document = serde_json::to_value(twostep::http::document()).unwrap();
    let described = &document["webhooks"]["delivery"]["post"];
    let mut schema = described["requestBody"]["content"]["application/json"]["schema"].clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut kinds = Vec::new();
    for told in receiver.told(2).await {
        for header in described["parameters"].as_array().unwrap() {
            assert_ne!(told.header(header["name"].as_str().unwrap()), "");
        }
        let body: Value = told.json();
        let errors: Vec<String> =
            validator.iter_errors(&body).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{body}");
        kinds.push(told.kind());
    }
    assert_eq!(kinds, ["run.completed", "webhook.test"]);
}
