//! From the bytes of a reply to a response body: pace, split writes, cuts and hangs.

use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::emit::Wire;
use super::script::{Cut, Reply};

/// Time for the bytes before a cut to reach the socket; a body that fails at once takes them along.
const FLUSH: Duration = Duration::from_millis(5);

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// In order.
    Clean,
    /// The connection is dropped.
    Torn,
    /// Nothing more comes until the simulator stops.
    Hangs,
}

/// The body that plays `wire` as `reply` wants it.
pub(crate) fn body(mut wire: Wire, reply: &Reply, stop: CancellationToken) -> Body {
    let ending = shorten(&mut wire, reply);
    let plain = reply.pace_ms == 0 && reply.split.is_none() && ending == Ending::Clean;
    if plain {
        return Body::from(wire.bytes);
    }
    let pace = Duration::from_millis(reply.pace_ms);
    let writes = writes(wire, reply);
    Body::from_stream(stream::unfold(
        (writes.into_iter(), true),
        move |(mut writes, first)| {
            let stop = stop.clone();
            async move {
                match writes.next() {
                    Some(write) => {
                        if write.starts_event && !first && !pace.is_zero() {
                            sleep(pace).await;
                        }
                        Some((Ok(write.bytes), (writes, false)))
                    }
                    None => match ending {
                        Ending::Clean => None,
                        Ending::Torn => {
                            sleep(FLUSH).await;
                            Some((Err(torn()), (writes, false)))
                        }
                        Ending::Hangs => {
                            stop.cancelled().await;
                            Some((Err(torn()), (writes, false)))
                        }
                    },
                }
            }
        },
    ))
}

/// Cuts `wire` where the reply says so.
fn shorten(wire: &mut Wire, reply: &Reply) -> Ending {
    if let Some(events) = reply.hang_after {
        wire.keep_events(events);
        return Ending::Hangs;
    }
    match reply.cut_after {
        None => return Ending::Clean,
        Some(Cut::Events(events)) => wire.keep_events(events),
        Some(Cut::Bytes { bytes }) => wire.keep_bytes(bytes),
    }
    if reply.cut_clean {
        Ending::Clean
    } else {
        Ending::Torn
    }
}

struct Write {
    starts_event: bool,
    bytes: Bytes,
}

/// The writes of a body: cut at every event when there is a pace, and at every `split` bytes.
fn writes(wire: Wire, reply: &Reply) -> Vec<Write> {
    let mut bytes = Bytes::from(wire.bytes);
    let mut taken = 0;
    let mut writes = Vec::new();
    let ends = if reply.pace_ms > 0 {
        wire.ends
    } else {
        vec![bytes.len()]
    };
    for end in ends {
        let mut event = bytes.split_to((end - taken).min(bytes.len()));
        taken = end;
        let size = reply.split.map_or(event.len(), NonZeroUsize::get);
        let mut starts_event = true;
        while !event.is_empty() {
            let bytes = event.split_to(size.min(event.len()));
            writes.push(Write {
                starts_event,
                bytes,
            });
            starts_event = false;
        }
    }
    writes
}

fn torn() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the script cuts the connection here",
    )
}
