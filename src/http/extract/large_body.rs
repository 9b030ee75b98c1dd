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
use crate::http::extract::body::{
    BodyLimits, check_charset, check_coding, check_json, content_length, media_type,
};
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
    permits: Arc<Semaphore>,
}

/// The memory permits of one body, returned on drop.
#[derive(Debug, Default)]
pub(in crate::http) struct BodyPermits {
    taken: Option<OwnedSemaphorePermit>,
}

impl BodyPermits {
    /// The bytes of the permits; 0 for a small body.
    pub(in crate::http) fn bytes(&self) -> usize {
        self.taken.as_ref().map_or(0, |taken| taken.num_permits() * PERMIT_BYTES)
    }
}

impl LargeBodies {
    pub(in crate::http) fn new(max: usize) -> Self {
        Self { max, permits: Arc::new(Semaphore::new(permits(max) * AT_A_TIME)) }
    }

    fn acquire(&self, length: usize) -> Result<BodyPermits, ApiError> {
        let permits = u32::try_from(permits(length)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.permits).try_acquire_many_owned(permits);
        let taken = taken.map_err(|_| ApiError::TooManyLargeBodies)?;
        Ok(BodyPermits { taken: Some(taken) })
    }

    /// Reads a body; `announced` is its `Content-Length`, or 0 without one.
    async fn read(&self, body: Body, announced: usize) -> Result<(Bytes, BodyPermits), ApiError> {
        let mut body_permits = None;
        if announced > SMALL {
            body_permits = Some(self.acquire(announced)?);
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
                if body_permits.is_none() {
                    body_permits = Some(self.acquire(self.max)?);
                }
                read.reserve(announced.saturating_sub(read.len()));
            }
            read.extend_from_slice(&chunk);
        }
        Ok((read.freeze(), body_permits.unwrap_or_default()))
    }
}

fn permits(length: usize) -> usize {
    length.div_ceil(PERMIT_BYTES)
}

/// A JSON body that may be large, and its memory permits.
#[derive(Debug)]
pub(in crate::http) struct LargeJsonBody<T>(pub(in crate::http) T, pub(in crate::http) BodyPermits);

impl<S, T> FromRequest<S> for LargeJsonBody<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Send + 'static,
    BodyLimits: FromRef<S>,
    LargeBodies: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        check_json(request.headers())?;
        let (body, body_permits) = receive(request, state).await?;
        let value = offload(body.len(), move || parse(&body)).await??;
        Ok(Self(value, body_permits))
    }
}

/// A JSON Lines body that may be large, and its memory permits.
#[derive(Debug)]
pub(in crate::http) struct LargeLines(pub(in crate::http) Bytes, pub(in crate::http) BodyPermits);

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
        check_charset(request.headers())?;
        let (body, body_permits) = receive(request, state).await?;
        Ok(Self(body, body_permits))
    }
}

/// A body of any media type that may be large, the media type, and the memory permits.
#[derive(Debug)]
pub(in crate::http) struct LargeBytes(
    pub(in crate::http) Bytes,
    pub(in crate::http) Option<String>,
    pub(in crate::http) BodyPermits,
);

impl<S> FromRequest<S> for LargeBytes
where
    S: Send + Sync,
    BodyLimits: FromRef<S>,
    LargeBodies: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let kind = media_type(request.headers());
        let (body, body_permits) = receive(request, state).await?;
        Ok(Self(body, Some(kind).filter(|kind| !kind.is_empty()), body_permits))
    }
}

/// Reads the whole body within the limits of time, size and memory.
async fn receive<S>(request: Request, state: &S) -> Result<(Bytes, BodyPermits), ApiError>
where
    BodyLimits: FromRef<S>,
    LargeBodies: FromRef<S>,
{
    check_coding(request.headers())?;
    let (limits, bodies) = (BodyLimits::from_ref(state), LargeBodies::from_ref(state));
    let announced = content_length(request.headers()).unwrap_or_default();
    if announced > bodies.max {
        return Err(ApiError::BodyTooLarge(bodies.max));
    }
    let longer = u64::try_from(announced / MIN_RATE).unwrap_or(u64::MAX);
    let time_limit = limits.timeout + Duration::from_secs(longer);
    tokio::select! {
        read = timeout(time_limit, bodies.read(request.into_body(), announced)) => {
            read.map_err(|_| ApiError::RequestTimeout(time_limit))?
        }
        () = limits.stops_soon() => Err(Error::Draining.into()),
    }
}
