//! Error responses in the form of `application/problem+json`.

use reqwest::Response;
use serde_json::Value;

use super::documented::assert_documented;
use super::kept_output;

/// The body of an error response. Fails the test unless it has this status and code, and the
/// OpenAPI document lists them for the path.
pub(crate) async fn problem(response: Response, status: u16, code: &str) -> Value {
    assert_eq!(response.status().as_u16(), status);
    assert_documented(response.url().path(), status, code);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let request_id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    let problem: Value = response.json().await.unwrap();
    kept_output::keep_response(&problem.to_string());
    assert_eq!(problem["status"], status);
    assert_eq!(problem["code"], code);
    assert_eq!(problem["request_id"], request_id);
    problem
}
