//! Output schemas for a model server that requires every property: a schema with an optional
//! property is refused for that server and accepted for others.

use serde_json::{Value, json};

use crate::support::{Program, binary, data_dir, problem};

fn schema(required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "degrees": { "type": "integer" } },
        "required": required,
        "additionalProperties": false,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_with_an_optional_property_is_refused_where_the_server_requires_all() {
    // Fails if another test of this process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let data = data_dir();
    for (base_url, requires_all) in
        [("https://api.openai.com/v1", true), ("http://[::1]:9/v1", false)]
    {
        let mut command = binary(&["serve", "--provider", "openai", "--model", "gpt-5"]);
        command.args(["--bind", "127.0.0.1:0", "--data-dir", data.path().to_str().unwrap()]);
        command.env("OPENAI_API_KEY", "k").env("OPENAI_BASE_URL", base_url);
        let program = Program::serve(command).await;
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let post = async |required: &[&str]| {
            let body = json!({ "output_schema": schema(required) });
            client.post(format!("{}/v1/sessions", program.url)).json(&body).send().await.unwrap()
        };
        assert_eq!(post(&["city", "degrees"]).await.status(), 201);
        let response = post(&["city"]).await;
        if requires_all {
            let problem = problem(response, 422, "validation_failed").await;
            assert_eq!(problem["errors"][0]["pointer"], "/output_schema/required");
        } else {
            assert_eq!(response.status(), 201);
        }
        program.terminate().await;
    }
}
