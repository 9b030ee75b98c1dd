//! The checks of a service and its proxies.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::finding::Finding;
use super::hints::{Fault, Proxy};
use super::probe::{ReceivedStream, StreamError, Target, head, listen};
use crate::cli::client::api_url;
use crate::cli::json::{items, non_empty_string, string};

/// Number of evenly spaced events, and the time between two.
const FLOW: usize = 10;
const EVERY: Duration = Duration::from_millis(200);
/// Maximum delay of the first event.
const LATE: Duration = Duration::from_secs(1);
/// Time within which the service must notice a disconnect. It notices at the next write.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The keep-alive interval of the service.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The findings of the first request, and the proxies that may be in front of the service.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) findings: Vec<Finding>,
    pub(super) proxies: Vec<Proxy>,
}

/// Checks that the service responds, the protocol and TLS.
pub(super) async fn reach(target: &Target) -> Result<Reached, StreamError> {
    let begun = Instant::now();
    let answer = head(target.get(&["probe", "streams"], &[])).await?;
    let took = begun.elapsed().as_millis();
    let named = Proxy::of(answer.headers());
    let behind = named.map(|proxy| format!(", behind {}", proxy.name())).unwrap_or_default();
    let text = format!("{:?} in {took} ms{behind}", answer.version());
    let proxies = named.map_or(Proxy::ALL.to_vec(), |proxy| vec![proxy]);
    let body: Option<Value> = answer.json().await.ok();
    if !body.is_some_and(|body| body.get("data").is_some_and(Value::is_array)) {
        let why = "the response does not come from the service".to_owned();
        return Err(StreamError { why, is_unavailable: false });
    }
    let host = target.base.host_str().unwrap_or_default();
    let is_local = host == "localhost" || host.starts_with("127.") || host == "[::1]";
    let tls = match target.base.scheme() {
        "https" => Finding::ok("TLS", "the certificate is valid"),
        _ if is_local => Finding::ok("TLS", "none; not needed on this machine"),
        _ => Finding::warn("TLS", "none: keys and answers are sent unencrypted"),
    };
    Ok(Reached { findings: vec![Finding::ok("reached", text), tls], proxies })
}

/// Checks that events arrive as they are sent.
pub(super) async fn flow(target: &Target) -> Vec<Finding> {
    match listen(target.stream(FLOW, EVERY, false)).await {
        Ok(arrived) => vec![first(&arrived), pieces("flow", &arrived), kept(&arrived)],
        Err(StreamError { why, .. }) => vec![Finding::fail("flow", why)],
    }
}

fn first(arrived: &ReceivedStream) -> Finding {
    let Some(first) = arrived.times.first() else {
        return Finding::fail("first event", "no data was received").because_of(Fault::Buffering);
    };
    let text = format!("after {} ms", first.as_millis());
    if *first > LATE {
        return Finding::fail("first event", text).because_of(Fault::Buffering);
    }
    Finding::ok("first event", text)
}

/// Checks that evenly sent events arrive evenly.
fn pieces(about: &'static str, arrived: &ReceivedStream) -> Finding {
    let (Some(first), Some(last)) = (arrived.times.first(), arrived.times.last()) else {
        return Finding::fail(about, "no data was received").because_of(Fault::Buffering);
    };
    // Events that arrive within half of the sending interval were buffered together.
    let is_apart = |pair: &&[Duration]| matches!(pair, [a, b] if b.saturating_sub(*a) > EVERY / 2);
    let apart = arrived.times.windows(2).filter(is_apart);
    let chunks = apart.count() + 1;
    let span = last.saturating_sub(*first).as_millis();
    let text = format!("{FLOW} events in {chunks} chunks over {span} ms");
    if !arrived.is_whole {
        return Finding::fail(about, format!("{text}, then the stream was aborted"));
    }
    if chunks * 2 < FLOW {
        return Finding::fail(about, format!("{text}: they are buffered"))
            .because_of(Fault::Buffering);
    }
    Finding::ok(about, text)
}

/// Checks the headers that browsers and proxies need.
fn kept(arrived: &ReceivedStream) -> Finding {
    let header = |name| arrived.headers.get(name).and_then(|value| value.to_str().ok());
    let kind = header(CONTENT_TYPE).unwrap_or("missing");
    if !kind.starts_with("text/event-stream") {
        return Finding::fail("headers", format!("the content type of the stream is {kind}"));
    }
    if !header(CACHE_CONTROL).is_some_and(|control| control.contains("no-transform")) {
        let text =
            "Cache-Control: no-transform was removed, so other proxies may compress the stream";
        return Finding::warn("headers", text);
    }
    Finding::ok("headers", format!("as sent, by {:?}", arrived.version))
}

/// Checks whether a stream is compressed for clients that accept it, and whether it still arrives
/// evenly.
pub(super) async fn compressed(target: &Target) -> Finding {
    let request = target.stream(FLOW, EVERY, false).header(ACCEPT_ENCODING, "gzip, br, zstd");
    let arrived = match listen(request).await {
        Ok(arrived) => arrived,
        Err(StreamError { why, .. }) => return Finding::fail("compression", why),
    };
    let coding = arrived.headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok());
    let Some(coding) = coding else { return pieces("compression", &arrived) };
    let finding = pieces("compression", &arrived);
    let text = format!("the stream is compressed with {coding}; ");
    finding.with_warning(text).because_of(Fault::Compression)
}

/// Checks that a client that reconnects receives the missed events.
pub(super) async fn resume(target: &Target) -> Finding {
    let request = target.stream(5, Duration::ZERO, false).header("last-event-id", "3");
    match listen(request).await.map(|arrived| arrived.numbers()) {
        Ok(numbers) if numbers == [4, 5] => Finding::ok("resume", "by Last-Event-ID"),
        Ok(numbers) => {
            let text = format!("after event 3 came {numbers:?}: Last-Event-ID was removed");
            Finding::fail("resume", text).because_of(Fault::LastEventId)
        }
        Err(StreamError { why, .. }) => Finding::fail("resume", why),
    }
}

/// Checks that `Location` contains the path prefix.
pub(super) async fn location(target: &Target) -> Finding {
    let answer = match head(target.stream(1, Duration::ZERO, false)).await {
        Ok(answer) => answer,
        Err(StreamError { why, .. }) => return Finding::fail("Location", why),
    };
    let text = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(text) = text else { return Finding::warn("Location", "the header was removed") };
    let expected = api_url(&target.base, &["probe", "streams"]);
    if answer.url().join(text).is_ok_and(|url| url == expected) {
        return Finding::ok("Location", "contains the path that clients use");
    }
    Finding::warn("Location", format!("is {text} instead of {}", expected.path()))
        .because_of(Fault::Location)
}

/// Checks that the service notices a disconnected client.
pub(super) async fn disconnect(target: &Target) -> Finding {
    let about = "disconnect";
    let id = match open_and_close(target).await {
        Ok(id) => id,
        Err(why) => return Finding::fail(about, why),
    };
    let left = Instant::now();
    loop {
        match state(target, &id).await {
            Some(state) if state == "left" => {
                let noticed = left.elapsed().as_millis();
                return Finding::ok(about, format!("noticed by the service within {noticed} ms"));
            }
            None => {
                let text = "unknown: another process responded";
                return Finding::warn(about, text);
            }
            Some(_) if left.elapsed() > DISCONNECT_TIMEOUT => {
                let text = "the service keeps streaming to a disconnected client";
                return Finding::fail(about, text).because_of(Fault::Disconnect);
            }
            Some(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Opens a long stream, closes it at its first event and returns its id.
async fn open_and_close(target: &Target) -> Result<String, String> {
    let request = target.stream(200, EVERY, false);
    let mut answer = head(request).await.map_err(|StreamError { why, .. }| why)?;
    let mut text = String::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        text.push_str(&String::from_utf8_lossy(&piece));
        let data = text.lines().find_map(|line| line.strip_prefix("data: "));
        let event = data.and_then(|data| serde_json::from_str::<Value>(data).ok());
        if let Some(id) =
            event.and_then(|event| non_empty_string(&event, "probe_id").map(str::to_owned))
        {
            return Ok(id);
        }
    }
    Err("the stream ended before its first event".to_owned())
}

/// Returns the state of a probe stream, or `None` if the service does not know it.
async fn state(target: &Target, id: &str) -> Option<String> {
    let answer = head(target.get(&["probe", "streams"], &[])).await.ok()?;
    let page: Value = answer.json().await.ok()?;
    let probe = items(&page, "data").iter().find(|probe| string(probe, "id") == id)?;
    Some(string(probe, "state").to_owned())
}

/// Checks that a stream survives a pause without data.
pub(super) async fn idle(target: &Target, silence: Duration) -> Finding {
    let seconds = silence.as_secs();
    let arrived = match listen(target.stream(2, silence, true)).await {
        Ok(arrived) => arrived,
        Err(StreamError { why, .. }) => return Finding::fail("idle", why),
    };
    if arrived.is_whole && arrived.numbers() == [1, 2] {
        return Finding::ok("idle", format!("a stream survives {seconds} s without data"));
    }
    let first = arrived.times.first().copied().unwrap_or_default();
    let after = arrived.ended.saturating_sub(first);
    let text = format!("a stream is closed after {:.1} s without data", after.as_secs_f32());
    let finding = if after > KEEP_ALIVE {
        Finding::warn("idle", format!("{text}; the service sends a keep-alive every 15 s"))
    } else {
        Finding::fail("idle", text)
    };
    finding.because_of(Fault::Idle)
}
