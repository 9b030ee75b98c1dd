//! Streams outlive the moment in which their key or token was looked at.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio::time::sleep;

use super::keyring::Keyring;
use crate::domain::ids::KeyId;
use crate::domain::pass::Pass;
use crate::http::stream::form::is_stream;

/// The time between two looks at the key of a stream.
pub(super) const CHECK_EVERY: Duration = Duration::from_secs(2);

/// The response, which is torn, if it is a stream, when its key is no longer good. A client that
/// comes back is then told so.
pub(super) fn watched(response: Response, keyring: Arc<Keyring>, pass: Pass) -> Response {
    if !is_stream(&response) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let refused = Box::pin(until_refused(keyring, pass));
    let items =
        stream::unfold((body.into_data_stream(), refused), async |(mut body, mut refused)| {
            let item = tokio::select! {
                () = &mut refused => Err(io::Error::other("the key is no longer good")),
                item = body.next() => item?.map_err(io::Error::other),
            };
            Some((item, (body, refused)))
        });
    Response::from_parts(parts, Body::from_stream(items))
}

async fn until_refused(keyring: Arc<Keyring>, pass: Pass) {
    match pass {
        Pass::Key(id) => until_taken_back(keyring, id).await,
        Pass::Token(_, until) => {
            let left = until.duration_since(Timestamp::now());
            sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
    }
}

/// Waits until the database says that a key is no longer good. One that is away says nothing.
async fn until_taken_back(keyring: Arc<Keyring>, id: KeyId) {
    loop {
        sleep(CHECK_EVERY).await;
        if matches!(keyring.is_good(id).await, Ok(false)) {
            return;
        }
    }
}
