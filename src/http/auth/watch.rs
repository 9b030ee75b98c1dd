//! Revocation of open streams: a stream is aborted when its key or token becomes invalid.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio::time::sleep;

use super::keyring::Keyring;
use crate::domain::principal::Principal;
use crate::http::stream::format::is_stream;

/// The interval at which the key of a stream is checked.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Wraps a response: a stream is aborted when its key becomes invalid. The client reconnects and is
/// invalid.
pub(super) fn watched(response: Response, keyring: Arc<Keyring>, principal: Principal) -> Response {
    if !is_stream(&response) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let invalid = Box::pin(until_invalid(keyring, principal));
    let items =
        stream::unfold((body.into_data_stream(), invalid), async |(mut body, mut invalid)| {
            let item = tokio::select! {
                () = &mut invalid => Err(io::Error::other("the key is no longer valid")),
                item = body.next() => item?.map_err(io::Error::other),
            };
            Some((item, (body, invalid)))
        });
    Response::from_parts(parts, Body::from_stream(items))
}

async fn until_invalid(keyring: Arc<Keyring>, principal: Principal) {
    match principal {
        Principal::Key(_) | Principal::BrowserToken(_) => until_revoked(keyring, principal).await,
        Principal::Token(_, until) => {
            let left = until.duration_since(Timestamp::now());
            sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
    }
}

/// Waits until a key or browser token is revoked or expired. While the database is unavailable the stream stays open.
async fn until_revoked(keyring: Arc<Keyring>, principal: Principal) {
    loop {
        sleep(CHECK_INTERVAL).await;
        if matches!(keyring.is_valid(principal).await, Ok(false)) {
            return;
        }
    }
}
