//! Streams for browsers, whose `EventSource` sends no header of its own: a ticket in the query
//! stands in for the key that made it.

use axum::extract::{FromRequestParts as _, Query};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Uri};
use serde::Deserialize;

use crate::domain::ids::SessionId;
use crate::domain::ticket::Ticket;
use crate::http::target::SessionPath;

/// The member of the query.
pub(super) const TICKET: &str = "ticket";

/// A ticket that a request gives, and the session whose stream it asks for.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) ticket: Ticket,
    pub(super) session_id: SessionId,
}

#[derive(Deserialize)]
struct Named {
    ticket: Option<String>,
}

/// Takes the ticket out of a request for a stream. Nobody who stands behind sees it: whatever they
/// write of the request's target, it is not in there.
pub(super) async fn take_out(parts: &mut Parts) -> Option<Given> {
    if parts.method != Method::GET || !is_stream(parts.uri.path()) {
        return None;
    }
    let Query(named) = Query::<Named>::try_from_uri(&parts.uri).ok()?;
    let text = named.ticket?;
    parts.uri = without_ticket(&parts.uri)?;
    let SessionPath(session_id) = SessionPath::from_request_parts(parts, &()).await.ok()?;
    Some(Given { ticket: text.parse().ok()?, session_id })
}

fn without_ticket(uri: &Uri) -> Option<Uri> {
    let name_of = |pair: &&str| pair.split('=').next() != Some(TICKET);
    let rest: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(name_of).collect();
    let target = match &*rest.join("&") {
        "" => uri.path().to_owned(),
        rest => format!("{}?{rest}", uri.path()),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// Whether a path, or the pattern of one, is that of a stream.
pub(super) fn is_stream(path: &str) -> bool {
    matches!(
        *segments(path),
        ["sessions", _, "events", "stream"] | ["sessions", _, "runs", _, "stream"]
    )
}

/// Whether a path, or the pattern of one, is where tickets are made.
pub(super) fn is_counter(path: &str) -> bool {
    matches!(*segments(path), ["sessions", _, "tickets"])
}

fn segments(path: &str) -> Vec<&str> {
    path.strip_prefix("/v1").unwrap_or(path).split('/').skip(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticket_and_nothing_else_is_taken_out_of_a_query() {
        for (whole, rest) in [
            ("/a/stream?ticket=tst_1", "/a/stream"),
            ("/a/stream?after=3&ticket=tst_1", "/a/stream?after=3"),
            ("/a/stream?ticket=tst_1&deltas=false&ticket=", "/a/stream?deltas=false"),
            ("/a/stream?tickets=1&ticket", "/a/stream?tickets=1"),
            ("http://h/a/stream?ticket=tst_1", "http://h/a/stream"),
        ] {
            assert_eq!(without_ticket(&whole.parse().unwrap()).unwrap(), *rest, "{whole}");
        }
    }

    #[test]
    fn only_streams_take_tickets_and_one_place_makes_them() {
        for (path, streams, makes) in [
            ("/v1/sessions/ses_1/events/stream", true, false),
            ("/sessions/ses_1/runs/run_1/stream", true, false),
            ("/v1/sessions/{session_id}/runs/{run_id}/stream", true, false),
            ("/v1/sessions/ses_1/runs/stream", false, false),
            ("/sessions/ses_1/tickets", false, true),
            ("/v1/sessions/ses_1/approvals/tickets", false, false),
            ("/v1/sessions/ses_1", false, false),
        ] {
            assert_eq!((is_stream(path), is_counter(path)), (streams, makes), "{path}");
        }
    }
}
