//! The way in which a client receives the run that its request starts, continues or reads.

use std::sync::Arc;

use http::HeaderMap;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::accept::ResponseFormat;
use crate::http::extract::headers::wait_seconds;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;

/// The way in which the client receives the run.
#[derive(Debug)]
pub(in crate::http) enum Delivery {
    /// As a stream of events.
    Stream(StreamFormat, StreamPermit),
    /// As JSON, after at most this many seconds.
    Wait(u64, StreamPermit),
    /// As JSON, at once.
    Respond,
}

impl Delivery {
    /// The delivery that `Accept` and `Prefer` ask for; a stream takes precedence. Called before the
    /// request takes effect: a request that gets no permit must not have changed anything.
    pub(in crate::http) fn of(
        api: &Arc<Api>,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Self, ApiError> {
        match ResponseFormat::of(headers)? {
            ResponseFormat::Stream(format) => Self::stream(api, caller, format),
            ResponseFormat::Json => Self::json(api, caller, headers),
        }
    }

    /// A stream in this format.
    pub(in crate::http) fn stream(
        api: &Arc<Api>,
        caller: &Caller,
        format: StreamFormat,
    ) -> Result<Self, ApiError> {
        Ok(Self::Stream(format, api.stream_permit(caller)?))
    }

    /// JSON, after the wait that `Prefer` asks for.
    pub(in crate::http) fn json(
        api: &Arc<Api>,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Self, ApiError> {
        match wait_seconds(headers) {
            Some(seconds) => Ok(Self::Wait(seconds, api.wait_permit(caller)?)),
            None => Ok(Self::Respond),
        }
    }
}
