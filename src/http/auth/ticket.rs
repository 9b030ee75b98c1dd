//! Stream tickets: one-time credentials in the query, for browsers whose `EventSource` cannot send
//! headers.

use axum::extract::{FromRequestParts as _, Query};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Uri};

use crate::domain::ids::SessionId;
use crate::domain::ticket::Ticket;
use crate::http::extract::path::SessionPath;

/// The name of the query parameter.
pub(super) const TICKET: &str = "ticket";

/// A ticket of a request, and the session whose stream it requests.
#[derive(Debug)]
pub(super) struct RequestTicket {
    pub(super) ticket: Ticket,
    /// None for the stream of the session list.
    pub(super) session_id: Option<SessionId>,
}

/// Removes the ticket from the target of a request for a stream, however it is encoded and however
/// often it occurs, so that later layers cannot log it.
pub(super) async fn extract_ticket(parts: &mut Parts) -> Option<RequestTicket> {
    let is_reading = [Method::GET, Method::HEAD].contains(&parts.method);
    if !is_reading || !is_stream(parts.uri.path()) {
        return None;
    }
    let (tickets, rest) = split_tickets(&parts.uri)?;
    parts.uri = rest;
    // A `HEAD` request does not use up its ticket.
    let [text] = &*tickets else { return None };
    if parts.method == Method::HEAD {
        return None;
    }
    let ticket = text.parse().ok()?;
    if is_list_stream(parts.uri.path()) {
        return Some(RequestTicket { ticket, session_id: None });
    }
    let SessionPath(session_id) = SessionPath::from_request_parts(parts, &()).await.ok()?;
    Some(RequestTicket { ticket, session_id: Some(session_id) })
}

/// The tickets of a query, and the target without them; none without a ticket.
fn split_tickets(uri: &Uri) -> Option<(Vec<String>, Uri)> {
    let Query(named) = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    let written = uri.query()?.split('&').filter(|pair| !pair.is_empty());
    let (mut tickets, mut rest) = (Vec::new(), Vec::new());
    for ((name, value), pair) in named.into_iter().zip(written) {
        if name == TICKET {
            tickets.push(value);
        } else {
            rest.push(pair);
        }
    }
    if tickets.is_empty() {
        return None;
    }
    let target = match &*rest.join("&") {
        "" => uri.path().to_owned(),
        rest => format!("{}?{rest}", uri.path()),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Some((tickets, Uri::from_parts(parts).ok()?))
}

/// Reports whether a path, or the pattern of a route, is that of a stream.
pub(super) fn is_stream(path: &str) -> bool {
    let of_session = matches!(
        *segments(path),
        ["sessions", _, "events", "stream"] | ["sessions", _, "runs", _, "stream"]
    );
    of_session || is_list_stream(path)
}

fn is_list_stream(path: &str) -> bool {
    matches!(*segments(path), ["sessions", "stream"])
}

/// Reports whether a path, or the pattern of a route, is one that creates tickets.
pub(super) fn creates_ticket(path: &str) -> bool {
    matches!(*segments(path), ["sessions", "tickets"] | ["sessions", _, "tickets"])
}

fn segments(path: &str) -> Vec<&str> {
    path.strip_prefix("/v1").unwrap_or(path).split('/').skip(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ticket_is_removed_from_a_query() {
        for (whole, tickets, rest) in [
            ("/a/stream?ticket=tst_1", &["tst_1"][..], "/a/stream"),
            ("/a/stream?after=3&ticket=tst_1", &["tst_1"], "/a/stream?after=3"),
            ("/a/stream?ticket=a&deltas=false&ticket=", &["a", ""], "/a/stream?deltas=false"),
            ("/a/stream?&%74icke%74=a&&a=%26&ticket", &["a", ""], "/a/stream?a=%26"),
            ("/a/stream?tickets=1&ticket", &[""], "/a/stream?tickets=1"),
            ("http://h/a/stream?ticket=tst_1", &["tst_1"], "http://h/a/stream"),
        ] {
            let (found, left) = split_tickets(&whole.parse().unwrap()).unwrap();
            assert_eq!(
                (&*found, left.to_string().as_str()),
                (&*tickets.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>(), rest),
                "{whole}"
            );
        }
        for whole in ["/a/stream", "/a/stream?after=3", "/a/stream?tickets=1"] {
            assert_eq!(split_tickets(&whole.parse().unwrap()), None, "{whole}");
        }
    }

    #[tokio::test]
    async fn several_tickets_and_head_requests_open_no_stream() {
        for (method, query) in [("HEAD", "ticket=tst_1"), ("GET", "ticket=a&ticket=b")] {
            let path = "/v1/sessions/ses_1/events/stream";
            let request = http::Request::builder().method(method).uri(format!("{path}?{query}"));
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            assert!(extract_ticket(&mut parts).await.is_none());
            assert_eq!(parts.uri, path, "{method}");
        }
    }

    #[test]
    fn only_streams_accept_tickets_and_two_routes_create_them() {
        for (path, streams, makes) in [
            ("/v1/sessions/ses_1/events/stream", true, false),
            ("/sessions/ses_1/runs/run_1/stream", true, false),
            ("/v1/sessions/{session_id}/runs/{run_id}/stream", true, false),
            ("/v1/sessions/ses_1/runs/stream", false, false),
            ("/sessions/ses_1/tickets", false, true),
            ("/v1/sessions/stream", true, false),
            ("/sessions/tickets", false, true),
            ("/sessions/stream/tickets/stream", false, false),
            ("/v1/sessions", false, false),
            ("/v1/sessions/ses_1/approvals/tickets", false, false),
            ("/v1/sessions/ses_1", false, false),
        ] {
            assert_eq!((is_stream(path), creates_ticket(path)), (streams, makes), "{path}");
        }
    }
}
