//! The deadline for requests without a body.

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::Method;

use crate::http::error::ApiError;
use crate::service::deadline::in_time;

/// Applies the deadline to requests without a body. Reading a body has its own deadline, so the
/// handlers of other requests apply this one after the body.
pub(in crate::http) async fn layer(request: Request, next: Next) -> Response {
    if !request.body().is_end_stream() || has_own_deadline(&request) {
        return next.run(request).await;
    }
    match in_time(async { Ok::<_, ApiError>(next.run(request).await) }).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

/// Returns true for a fork, which may copy many files, for a deletion, which may delete many rows, and
/// for a read of a run, which may wait for it. Their use cases apply the deadline to the rest of their database work.
fn has_own_deadline(request: &Request) -> bool {
    let path = request.uri().path();
    let session = path.strip_prefix("/v1").unwrap_or(path).strip_prefix("/sessions/");
    match (request.method(), session) {
        (&Method::POST, Some(session)) => session.ends_with("/forks"),
        (&Method::DELETE, Some(session)) => !session.contains('/'),
        (&Method::GET | &Method::HEAD, Some(session)) => {
            session.split('/').nth(1) == Some("runs") && request.headers().contains_key("prefer")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::deadline::DEADLINE;
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::{delete, get, post};
    use tokio::time::sleep;
    use tower::ServiceExt as _;

    #[tokio::test(start_paused = true)]
    async fn nothing_without_a_body_may_take_long_but_a_fork_a_deletion_and_a_wait() {
        let slow = || async { sleep(DEADLINE * 3).await };
        let router = Router::new()
            .route("/sessions/{id}", delete(slow).get(slow))
            .route("/webhooks/{id}", delete(slow))
            .route("/sessions/{id}/forks", post(slow).get(slow))
            .route("/sessions/{id}/runs/{run}", get(slow));
        let router = router.clone().nest("/v1", router).layer(from_fn(layer));
        for (method, path, status) in [
            (Method::POST, "/v1/sessions/ses_1/forks", 200),
            (Method::POST, "/sessions/ses_1/forks", 200),
            (Method::GET, "/v1/sessions/ses_1/forks", 503),
            (Method::DELETE, "/v1/sessions/ses_1", 200),
            (Method::DELETE, "/sessions/ses_1", 200),
            (Method::GET, "/v1/sessions/ses_1", 503),
            (Method::DELETE, "/v1/webhooks/whk_1", 503),
        ] {
            let request = Request::builder().method(&method).uri(path).body(Body::empty());
            let response = router.clone().oneshot(request.unwrap()).await.unwrap();
            assert_eq!(response.status(), status, "{method} {path}");
        }
        for (prefer, status) in [(Some("wait=60"), 200), (None, 503)] {
            let mut request = Request::builder().uri("/v1/sessions/ses_1/runs/run_1");
            if let Some(prefer) = prefer {
                request = request.header("prefer", prefer);
            }
            let request = request.body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), status, "{prefer:?}");
        }
    }
}
