//! Probe streams, which show whether proxies between a client and the service buffer streams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout};

use crate::domain::ids::ProbeId;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::headers::{resume_after, wait_seconds};
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::server::forwarded::link;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::probes::{Listener, ProbeState};
use crate::http::stream::response::streamed;
use crate::metrics::GaugeGuard;

/// The format of probe streams.
const FORMAT: StreamFormat = StreamFormat::EventStream;
const DEFAULT_EVENTS: i64 = 3;
const MAX_EVENTS: i64 = 240;
const DEFAULT_EVERY_MS: u64 = 100;
/// The maximum duration of a probe.
const LONGEST: Duration = Duration::from_mins(1);

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct StreamProbe {
    /// The number of events, 1 to 240; 3 by default.
    #[param(minimum = 1, maximum = 240)]
    events: Option<i64>,
    /// The interval between two events, in milliseconds; 100 by default. The whole stream takes at
    /// most one minute.
    #[param(maximum = 60_000)]
    every_ms: Option<u64>,
    /// True to omit the comments that keep other streams alive between two events.
    silent: Option<bool>,
}

impl StreamProbe {
    /// The number of the last event, and the interval.
    fn check(&self) -> Result<(i64, Duration), ApiError> {
        let events = self.events.unwrap_or(DEFAULT_EVENTS);
        if !(1..=MAX_EVENTS).contains(&events) {
            let message = format!("is {events}; 1 to {MAX_EVENTS} are allowed");
            return Err(ApiError::query("events", message));
        }
        let every = Duration::from_millis(self.every_ms.unwrap_or(DEFAULT_EVERY_MS));
        let pauses = u32::try_from(events - 1).unwrap_or(u32::MAX);
        if every.checked_mul(pauses).is_none_or(|all| all > LONGEST) {
            let message = "is too long: the whole stream would take more than one minute";
            return Err(ApiError::query("every_ms", message));
        }
        Ok((events, every))
    }
}

/// One event of a probe.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ProbeEvent {
    /// `probe`.
    r#type: &'static str,
    /// The number of the event, from 1.
    seq: i64,
    /// The probe.
    #[schema(value_type = String)]
    probe_id: ProbeId,
}

/// Streams test events with the headers of all other streams.
///
/// A probe makes no model request. It counts as an open stream. A client that reconnects with
/// `Last-Event-ID` receives the remaining events, or 204 if there are none.
#[utoipa::path(
    get, path = "/probe/stream", operation_id = "stream_probe", tag = "events",
    params(StreamProbe),
    responses(
        (status = 200, description = "The stream. The schema describes the `data` of one event.",
         body = ProbeEvent, content_type = "text/event-stream",
         headers(("location" = String, description = "The path with the states of recent probes."))),
        (status = 204, description = "There are no more events."),
        (status = 400, description = "`invalid_query`, `invalid_cursor`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn stream_probe(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<StreamProbe>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Params(query) = query;
    let (last, every) = query.check()?;
    let after = resume_after(&headers, None)?.seq;
    if after >= last {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let keeps_alive = !query.silent.unwrap_or(false);
    let now = Instant::now();
    let probe = Probe {
        _place: api.stream_permit(&caller)?,
        _open: api.metrics.open_stream(),
        listener: api.probes.begin(caller.tenant),
        next: after + 1,
        last,
        every,
        due: now,
        keep_alive_at: keeps_alive.then(|| now + api.options.keep_alive_every),
        is_first: true,
        api,
    };
    let body = stream::unfold(probe, async |mut probe| {
        let item = probe.next().await?;
        Some((item, probe))
    });
    let mut response = streamed(Body::from_stream(body), FORMAT);
    let location = HeaderValue::try_from(link(format_args!("/probe/streams")))
        .map_err(|error| ApiError::Internal(error.to_string()))?;
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// A probe that is being streamed.
struct Probe {
    api: Arc<Api>,
    listener: Listener,
    /// The number of the next event, and its time.
    next: i64,
    due: Instant,
    last: i64,
    every: Duration,
    /// The time of the next comment, unless an event is sent before.
    keep_alive_at: Option<Instant>,
    is_first: bool,
    _place: StreamPermit,
    _open: GaugeGuard,
}

impl Probe {
    /// The next bytes. An error aborts the connection, as in all other streams.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.next > self.last {
            self.listener.finish();
            return None;
        }
        let keep_alive_at = self.keep_alive_at.filter(|keep_alive_at| *keep_alive_at < self.due);
        tokio::select! {
            () = self.api.draining.cancelled() => {
                return Some(Err(io::Error::other("the service is stopping")));
            }
            () = sleep_until(keep_alive_at.unwrap_or(self.due)) => {}
        }
        self.keep_alive_at =
            self.keep_alive_at.map(|_| Instant::now() + self.api.options.keep_alive_every);
        if keep_alive_at.is_some() {
            return Some(Ok(FORMAT.keep_alive_bytes()));
        }
        let (seq, probe_id) = (self.next, self.listener.id);
        let json = serde_json::to_string(&ProbeEvent { r#type: "probe", seq, probe_id });
        let frame = match json {
            Ok(json) => format!("id: {seq}\nevent: probe\ndata: {json}\n\n"),
            Err(error) => return Some(Err(error.into())),
        };
        self.next += 1;
        self.due += self.every;
        let first = if std::mem::take(&mut self.is_first) {
            FORMAT.first_bytes(true)
        } else {
            Bytes::new()
        };
        Some(Ok([first, frame.into()].concat().into()))
    }
}

/// A recent probe.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ProbeResource {
    /// `probe`.
    r#type: &'static str,
    /// The id, as in its events.
    #[schema(value_type = String)]
    id: ProbeId,
    /// True if the stream is open, was sent completely, or was closed by the client.
    state: ProbeState,
}

/// Lists the most recent probes of this process, newest first.
///
/// With `Prefer: wait=N` the response is sent after N seconds, at most 120. It shows whether a proxy
/// passes this header on and waits for slow replies.
#[utoipa::path(
    get, path = "/probe/streams", operation_id = "list_probes", tag = "events",
    params(("Prefer" = Option<String>, Header, description = "`wait=N` delays the response by N seconds, at most 120.")),
    responses(
        (status = 200, description = "The recent probes.", body = Page<ProbeResource>,
         headers(("preference-applied" = Option<String>, description = "`wait=N`, if the response was delayed."))),
        (status = 503, description = "`too_many_waits`, `draining`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_probes(
    State(api): State<Arc<Api>>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let seconds = wait_seconds(&headers).filter(|seconds| *seconds > 0);
    if let Some(seconds) = seconds {
        let _permit = api.wait_permit(&caller)?;
        let _ = timeout(Duration::from_secs(seconds), api.draining.cancelled()).await;
    }
    let resource = |(id, state)| ProbeResource { r#type: "probe", id, state };
    let data = api.probes.list(caller.tenant).into_iter().map(resource).collect();
    let mut response = Json(Page::<ProbeResource>::whole(data)).into_response();
    if let Some(seconds) = seconds {
        let applied = HeaderValue::try_from(format!("wait={seconds}"))
            .map_err(|error| ApiError::Internal(error.to_string()))?;
        response.headers_mut().insert("preference-applied", applied);
    }
    Ok(response)
}
