//! The headers that choose the form of a response, for the OpenAPI document.

/// The header `Prefer` of requests whose response can wait for a run.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "for the OpenAPI document; the handlers read the header themselves")]
pub(in crate::http) struct PreferWait {
    /// `wait=N`: the response waits up to N seconds, at most 120, for the run. `respond-async`, the
    /// default: it does not wait.
    #[param(rename = "Prefer")]
    prefer: Option<String>,
}

/// The header `Last-Event-ID` of requests whose response can be a stream.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "for the OpenAPI document; the handlers read the header themselves")]
pub(in crate::http) struct ResumedStream {
    /// The last event that the client has seen, for the stream of a repeated request.
    #[param(rename = "Last-Event-ID")]
    last_event_id: Option<String>,
}
