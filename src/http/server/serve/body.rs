//! What a response gives to its connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::pace::InHand;
use super::streams::Taken;

/// What an HTTP/2 stream is given at a time: as much as a frame of it takes.
const PIECE: usize = 16 * 1024;

/// A response's body, whose request is in hand until it is sent or given up.
pub(super) struct Held {
    body: Body,
    /// None for HTTP/1.
    taken: Option<Taken>,
    /// What the body gave and the connection has not asked for.
    rest: Bytes,
    _in_hand: InHand,
}

impl Held {
    /// The body of this request's response; made by the task that the request has.
    pub(super) fn new(body: Body, in_hand: InHand) -> Self {
        Self { body, taken: Taken::of_task(), rest: Bytes::new(), _in_hand: in_hand }
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        let Some(taken) = &this.taken else {
            return Pin::new(&mut this.body).poll_frame(cx);
        };
        taken.all();
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        taken.not_yet();
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    /// Asked for before the first frame.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
