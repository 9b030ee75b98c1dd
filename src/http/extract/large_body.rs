//! Large bodies, such as messages with images, with a bound on the memory that all of them hold.
//!
//! A body of up to [`SMALL`] bytes is read like any other. A larger one acquires memory permits,
//! which it holds until its handler drops them. Many or slow clients with large bodies can
//! therefore hold only a bounded amount of memory.

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

/// The maximum size of bodies that need no permits, in bytes.
const SMALL: usize = 1024 * 1024;
/// The number of concurrent bodies of the maximum size.
const AT_A_TIME: usize = 4;
/// The minimum rate of a client in bytes per second, which extends the timeout of large bodies.
const MIN_RATE: usize = 512 * 1024;
/// The bytes of one memory permit.
const PERMIT_BYTES: usize = 1024;

/// The memory permits of large bodies.
#[derive(Debug, Clone)]
pub(in crate::http) struct LargeBodies {
    max: usize,
    room: Arc<Semaphore>,
}

/// The memory permits of one body, returned on drop.
#[derive(Debug, Default)]
pub(in crate::http) struct Room {
    taken: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// The bytes of the permits; 0 for a small body.
    pub(in crate::http) fn bytes(&self) -> usize {
        self.taken.as_ref().map_or(0, |taken| taken.num_permits() * PERMIT_BYTES)
    }
}

impl LargeBodies {
    pub(in crate::http) fn new(max: usize) -> Self {
        Self { max, room: Arc::new(Semaphore::new(permits(max) * AT_A_TIME)) }
    }

    fn take(&self, length: usize) -> Result<Room, ApiError> {
        let permits = u32::try_from(permits(length)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.room).try_acquire_many_owned(permits);
        let taken = taken.map_err(|_| ApiError::TooManyLargeBodies)?;
        Ok(Room { taken: Some(taken) })
    }

    /// Reads a body; `announced` is its `Content-Length`, or 0 without one.
    async fn read(&self, body: Body, announced: usize) -> Result<(Bytes, Room), ApiError> {
        let mut room = None;
        if announced > SMALL {
            room = Some(self.take(announced)?);
        }
        let mut read = BytesMut::with_capacity(announced.min(SMALL));
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| ApiError::BodyIncomplete)?;
            let length = read.len() + chunk.len();
            if length > self.max {
                return Err(ApiError::BodyTooLarge(self.max));
            }
            if length > SMALL {
                if room.is_none() {
                    room = Some(self.take(self.max)?);
                }
                read.reserve(announced.saturating_sub(read.len()));
            }
            read.extend_from_slice(&chunk);
        }
        Ok((read.freeze(), room.unwrap_or_default()))
    }
}

fn permits(length: usize) -> usize {
    length.div_ceil(PERMIT_BYTES)
}

/// A JSON body that may be large, and its memory permits.
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

/// A JSON Lines body that may be large, and its memory permits.
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

/// Reads the whole body within the limits of time, size and memory.
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
    let longer = u64::try_from(announced / MIN_RATE).unwrap_or(u64::MAX);
    let patience = limits.timeout + Duration::from_secs(longer);
    tokio::select! {
        read = timeout(patience, bodies.read(request.into_body(), announced)) => {
            read.map_err(|_| ApiError::RequestTimeout(patience))?
        }
        () = limits.stops_soon() => Err(Error::Draining.into()),
    }
}
