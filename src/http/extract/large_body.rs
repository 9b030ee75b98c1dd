//! Bodies that may hold images: larger than others, and never too many at a time.
//!
//! A body up to [`SMALL`] is read like any other. For a larger one there must be room, which is
//! given back when its handler says so: whoever sends large bodies, however slowly, and however many
//! of them, all together hold only so much memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, Request};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::http::error::ApiError;
use crate::http::extract::body::{BodyLimits, content_length, is_json, media_type};
use crate::service::Error;
use crate::service::json::parse;
use crate::service::offload::offload;

/// Bodies up to this size are not counted, in bytes.
const SMALL: usize = 1024 * 1024;
/// Bodies of the largest size that there is room for at a time.
const AT_A_TIME: usize = 4;
/// What a client on a poor line sends in a second, in bytes: so much longer may a large body take.
const PACE: usize = 512 * 1024;
/// Room is counted in pieces of so many bytes.
const PIECE: usize = 1024;

/// The room for large bodies.
#[derive(Debug, Clone)]
pub(in crate::http) struct LargeBodies {
    max: usize,
    room: Arc<Semaphore>,
}

/// Room that a body takes up, until it is dropped.
#[derive(Debug, Default)]
pub(in crate::http) struct Room {
    taken: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// The size of the body, in bytes, if it is large.
    pub(in crate::http) fn bytes(&self) -> usize {
        self.taken.as_ref().map_or(0, |taken| taken.num_permits() * PIECE)
    }
}

impl LargeBodies {
    pub(in crate::http) fn new(max: usize) -> Self {
        Self { max, room: Arc::new(Semaphore::new(pieces(max) * AT_A_TIME)) }
    }

    fn take(&self, length: usize) -> Result<Room, ApiError> {
        let pieces = u32::try_from(pieces(length)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.room).try_acquire_many_owned(pieces);
        let taken = taken.map_err(|_| ApiError::TooManyLargeBodies)?;
        Ok(Room { taken: Some(taken) })
    }

    /// Reads a body whose length may have been announced.
    async fn read(&self, body: Body, announced: usize) -> Result<(Bytes, Room), ApiError> {
        let mut room = None;
        if announced > SMALL {
            room = Some(self.take(announced)?);
        }
        let mut read = BytesMut::with_capacity(announced.min(SMALL));
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| ApiError::BodyIncomplete)?;
            let length = read.len() + piece.len();
            if length > self.max {
                return Err(ApiError::BodyTooLarge(self.max));
            }
            if length > SMALL {
                if room.is_none() {
                    room = Some(self.take(self.max)?);
                }
                read.reserve(announced.saturating_sub(read.len()));
            }
            read.extend_from_slice(&piece);
        }
        Ok((read.freeze(), room.unwrap_or_default()))
    }
}

fn pieces(length: usize) -> usize {
    length.div_ceil(PIECE)
}

/// A JSON body that may be large, and the room that it takes up.
#[derive(Debug)]
pub(in crate::http) struct LargeJsonBody<T>(pub(in crate::http) T, pub(in crate::http) Room);

impl<S, T> FromRequest<S> for LargeJsonBody<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Send + 'static,
    BodyLimits: FromRef<S>,
    LargeBodies: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::UnsupportedMediaType);
        }
        let (body, room) = receive(request, state).await?;
        let value = offload(body.len(), move || parse(&body)).await??;
        Ok(Self(value, room))
    }
}

/// Lines of JSON that may be large, and the room that they take up.
#[derive(Debug)]
pub(in crate::http) struct LargeLines(pub(in crate::http) Bytes, pub(in crate::http) Room);

impl<S> FromRequest<S> for LargeLines
where
    S: Send + Sync,
    BodyLimits: FromRef<S>,
    LargeBodies: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !matches!(&*media_type(request.headers()), "application/jsonl" | "application/x-ndjson")
        {
            return Err(ApiError::NotLines);
        }
        let (body, room) = receive(request, state).await?;
        Ok(Self(body, room))
    }
}

/// The whole body, if it comes in time and there is room for it.
async fn receive<S>(request: Request, state: &S) -> Result<(Bytes, Room), ApiError>
where
    BodyLimits: FromRef<S>,
    LargeBodies: FromRef<S>,
{
    let (limits, bodies) = (BodyLimits::from_ref(state), LargeBodies::from_ref(state));
    let announced = content_length(request.headers()).unwrap_or_default();
    if announced > bodies.max {
        return Err(ApiError::BodyTooLarge(bodies.max));
    }
    let longer = u64::try_from(announced / PACE).unwrap_or(u64::MAX);
    let patience = limits.timeout + Duration::from_secs(longer);
    tokio::select! {
        read = timeout(patience, bodies.read(request.into_body(), announced)) => {
            read.map_err(|_| ApiError::RequestTimeout(patience))?
        }
        () = limits.stops_soon() => Err(Error::Draining.into()),
    }
}
