//! Comparison of deliveries with the OpenAPI document.

use serde_json::Value;

use super::{Receiver, Webhook, local_receivers};
use crate::support::{TestApp, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_have_the_headers_and_the_body_of_the_openapi_document() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), local_receivers()).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    app.session().await.ask("Hello").await;
    receiver.requests(1).await;
    let test = app.post(&webhook.path("/test")).send().await.unwrap();
    assert_eq!(test.status(), 202);

    let document = serde_json::to_value(twostep::http::document()).unwrap();
    let operation = &document["webhooks"]["delivery"]["post"];
    let mut schema = operation["requestBody"]["content"]["application/json"]["schema"].clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut kinds = Vec::new();
    for request in receiver.requests(2).await {
        for header in operation["parameters"].as_array().unwrap() {
            assert_ne!(request.header(header["name"].as_str().unwrap()), "");
        }
        let body: Value = request.json();
        let errors: Vec<String> =
            validator.iter_errors(&body).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{body}");
        kinds.push(request.kind());
    }
    assert_eq!(kinds, ["run.completed", "webhook.test"]);
}
