//! Response bodies with a pace, split writes, cuts and hangs.

use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;
use std::vec;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::emit::{PING, Wire};
use super::script::{Cut, Reply};

/// Time for the bytes before a cut to reach the socket. A body that fails at once discards them.
const FLUSH: Duration = Duration::from_millis(5);

/// The end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The regular end.
    Clean,
    /// The connection is aborted.
    Aborted,
    /// The body stays open until the simulator stops.
    Hangs,
}

/// Returns the body for `wire` with the delivery options of `reply`.
pub(crate) fn body(mut wire: Wire, reply: &Reply, stop: CancellationToken) -> Body {
    let ending = shorten(&mut wire, reply);
    if reply.pace_ms == 0 && reply.split.is_none() && ending == Ending::Clean {
        return Body::from(wire.bytes);
    }
    let ping = (reply.ping_ms > 0).then(|| Duration::from_millis(reply.ping_ms));
    let player = Player {
        ping,
        writes: writes(wire, reply).into_iter(),
        sent: 0,
        unpaced: reply.pace_after.map_or(1, NonZeroUsize::get),
        pace: Duration::from_millis(reply.pace_ms),
        ending,
        stop,
    };
    Body::from_stream(stream::unfold(player, Player::next))
}

/// A body in progress.
struct Player {
    writes: vec::IntoIter<Write>,
    /// The number of events that have begun.
    sent: usize,
    /// The number of events before the first pause.
    unpaced: usize,
    pace: Duration,
    /// The time between pings while the body hangs.
    ping: Option<Duration>,
    ending: Ending,
    stop: CancellationToken,
}

impl Player {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if let Some(write) = self.writes.next() {
            if write.starts_event {
                if self.sent >= self.unpaced && !self.pace.is_zero() {
                    sleep(self.pace).await;
                }
                self.sent += 1;
            }
            return Some((Ok(write.bytes), self));
        }
        match self.ending {
            Ending::Clean => return None,
            Ending::Aborted => sleep(FLUSH).await,
            Ending::Hangs => {
                let pause = self.ping.unwrap_or(Duration::MAX);
                if timeout(pause, self.stop.cancelled()).await.is_err() {
                    return Some((Ok(Bytes::from_static(PING)), self));
                }
            }
        }
        Some((Err(aborted()), self))
    }
}

/// Truncates `wire` as the reply requires.
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
    if reply.cut_clean { Ending::Clean } else { Ending::Aborted }
}

struct Write {
    starts_event: bool,
    bytes: Bytes,
}

/// Splits a body into writes: at every event if there is a pace, and after every `split` bytes.
fn writes(wire: Wire, reply: &Reply) -> Vec<Write> {
    let mut bytes = Bytes::from(wire.bytes);
    let mut taken = 0;
    let mut writes = Vec::new();
    let ends = if reply.pace_ms > 0 { wire.ends } else { vec![bytes.len()] };
    for end in ends {
        let mut event = bytes.split_to((end - taken).min(bytes.len()));
        taken = end;
        let size = reply.split.map_or(event.len(), NonZeroUsize::get);
        let mut starts_event = true;
        while !event.is_empty() {
            let bytes = event.split_to(size.min(event.len()));
            writes.push(Write { starts_event, bytes });
            starts_event = false;
        }
    }
    writes
}

fn aborted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the script aborts the connection here")
}
