//! Requests that the service must reject.

use reqwest::{Client, Request, RequestBuilder, Response};
use serde_json::{Value, json};

use super::documented::assert_documented;
use super::{Session, kept_output};

/// The expected error response.
pub(crate) struct Refusal {
    status: u16,
    code: &'static str,
    /// The JSON pointer of the first invalid member; `None` for an error without one.
    pointer: Option<&'static str>,
}

/// An error that names no member.
pub(crate) fn refusal(status: u16, code: &'static str) -> Refusal {
    Refusal { status, code, pointer: None }
}

/// A validation error at this JSON pointer.
pub(crate) fn invalid(pointer: &'static str) -> Refusal {
    Refusal { pointer: Some(pointer), ..refusal(422, "validation_failed") }
}

/// Sends a request that must be rejected, checks the whole error response, and checks that the
/// session is unchanged and still works.
pub(crate) async fn assert_refused(
    session: &Session<'_>,
    request: RequestBuilder,
    expected: Refusal,
) {
    let before = (session.events().await, runs(session).await);
    let request = request.build().unwrap();
    let what = format!(
        "{} {} {:?}",
        request.method(),
        request.url(),
        request
            .body()
            .and_then(|body| body.as_bytes())
            .map(|body| { String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned() })
    );
    let path = request.url().path().to_owned();
    let response = execute(&session.app.client, &request).await;
    let status = response.status();
    let headers = response.headers().clone();
    let mut problem: Value = response.json().await.unwrap_or_default();
    kept_output::keep_response(&problem.to_string());
    assert_eq!(status.as_u16(), expected.status, "{what}: {problem}");
    assert_documented(&path, expected.status, expected.code);
    assert_eq!(headers["content-type"], "application/problem+json", "{what}");

    let detail = problem["detail"].take();
    assert!(!detail.as_str().unwrap().is_empty(), "{what}");
    let errors = problem["errors"].take();
    let names_parameter = ["invalid_query", "invalid_cursor"].contains(&expected.code);
    let pointer = errors[0]["pointer"].as_str().filter(|_| !names_parameter);
    assert_eq!(pointer, expected.pointer, "{what}: {errors}");
    let named = ["parameter", "header"].map(|kind| errors[0][kind].is_string());
    let is_header = expected.code == "validation_failed" && named == [false, true];
    assert!(is_header || named.contains(&true) == names_parameter, "{what}: {errors}");
    let request_id = headers["x-request-id"].to_str().unwrap();
    let mut whole = json!({
        "type": "about:blank", "title": status.canonical_reason(), "status": expected.status,
        "detail": null, "instance": path, "code": expected.code, "request_id": request_id,
    });
    let has_errors = expected.pointer.is_some() || names_parameter;
    if has_errors {
        whole["errors"] = Value::Null;
    }
    // `take` has left a null where there were none.
    problem.as_object_mut().unwrap().retain(|key, _| key != "errors" || has_errors);
    assert_eq!(problem, whole, "{what}");

    assert_eq!((session.events().await, runs(session).await), before, "{what}");
    assert_eq!(session.ask("Are you there?").await["output_text"], "Yes.", "{what}");
}

/// Sends a request. A service that refuses a large body closes the connection, which may interrupt the
/// client before it has read the response; the request is repeated then.
async fn execute(client: &Client, request: &Request) -> Response {
    let mut tries = 0;
    loop {
        match client.execute(request.try_clone().unwrap()).await {
            Ok(response) => return response,
            Err(error) => assert!(error.is_request() && tries < 20, "{error:?}"),
        }
        tries += 1;
    }
}

async fn runs(session: &Session<'_>) -> Value {
    let path = session.path("/runs?limit=200");
    session.app.get(&path).send().await.unwrap().json().await.unwrap()
}

/// A request that posts a message with this body, byte for byte.
pub(crate) fn raw(session: &Session<'_>, body: impl Into<reqwest::Body>) -> RequestBuilder {
    let post = session.app.post(&session.path("/messages"));
    post.header("content-type", "application/json").body(body)
}
