//! The body of a response on its way to the connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::connection_deadline::ActiveRequest;
use super::streams::Progress;

/// The size of the pieces for HTTP/2 streams in bytes: one frame.
const PIECE: usize = 16 * 1024;

/// The body of a response. Its request counts as active until the body is sent or dropped.
pub(super) struct TrackedBody {
    body: Body,
    /// The progress of the HTTP/2 stream; none for HTTP/1.
    progress: Option<Progress>,
    /// Data of the body that the connection has not polled yet.
    rest: Bytes,
    _active: ActiveRequest,
}

impl TrackedBody {
    /// Wraps the body of a response; to be called in the task of the request.
    pub(super) fn new(body: Body, active: ActiveRequest) -> Self {
        Self { body, progress: Progress::of_task(), rest: Bytes::new(), _active: active }
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        let Some(progress) = &this.progress else {
            return Pin::new(&mut this.body).poll_frame(cx);
        };
        progress.all_read();
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        progress.piece_sent();
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    /// Polled before the first frame.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
