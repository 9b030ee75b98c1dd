//! The checks of a service and its proxies.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::finding::Finding;
use super::hints::{Fault, Proxy};
use super::probe::{ReceivedStream, StreamError, Target, head, listen};
use super::requests;
use crate::cli::client::api_url;
use crate::cli::json::{items, non_empty_string, string};

/// Number of evenly spaced events, and the time between two.
const FLOW: usize = 10;
const EVERY: Duration = Duration::from_millis(200);
/// Maximum delay of the first event.
const LATE: Duration = Duration::from_secs(1);
/// Time by which a first event may arrive later than a reply without a stream. Linux holds back small
/// packets for 200 ms if a proxy asks for it.
const DELAY: Duration = Duration::from_millis(150);
/// Number of streams of which none has a delayed first event if the proxy causes no delay.
const REPETITIONS: usize = 5;
/// Number of late events of a stream that is not even. A busy machine causes them in single streams, so
/// the stream is requested again, at most this often.
const CLUMPED: usize = 4;
const TRIES: usize = 3;
/// Time within which the service must notice a disconnect.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between the events of a stream that is closed. It is longer than the time limit.
const SILENCE: Duration = Duration::from_secs(20);
/// The keep-alive interval of the service.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The findings of the first request, and the proxies that may be in front of the service.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) findings: Vec<Finding>,
    pub(super) proxies: Vec<Proxy>,
    /// The time of a reply.
    pub(super) took: Duration,
}

/// Checks that the service responds, the protocol and TLS.
pub(super) async fn reach(target: &Target) -> Result<Reached, StreamError> {
    let begun = Instant::now();
    let answer = head(target.get(&["probe", "streams"], &[])).await?;
    let took = begun.elapsed();
    let named = Proxy::of(answer.headers());
    let behind = named.map(|proxy| format!(", behind {}", proxy.name())).unwrap_or_default();
    let text = format!("{:?} in {} ms{behind}", answer.version(), took.as_millis());
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
    Ok(Reached { findings: vec![Finding::ok("reached", text), tls], proxies, took })
}

/// Checks that events arrive as they are sent. `reply` is the time of a reply without a stream.
pub(super) async fn flow(target: &Target, mut reply: Duration) -> Vec<Finding> {
    // The first reply includes the time of the connection.
    for _ in 1..REPETITIONS {
        let begun = Instant::now();
        if head(target.get(&["probe", "streams"], &[])).await.is_ok() {
            reply = reply.min(begun.elapsed());
        }
    }
    let mut findings = Vec::new();
    for _ in 0..TRIES {
        findings = match listen(target.stream(FLOW, EVERY, false)).await {
            Ok(arrived) => {
                vec![first(target, &arrived, reply).await, pieces("flow", &arrived), kept(&arrived)]
            }
            Err(StreamError { why, .. }) => vec![Finding::fail("flow", why)],
        };
        if findings.iter().all(Finding::is_ok) {
            break;
        }
    }
    findings
}

async fn first(target: &Target, arrived: &ReceivedStream, reply: Duration) -> Finding {
    let Some(first) = arrived.times.first() else {
        return Finding::fail("first event", "no data was received").because_of(Fault::Buffering);
    };
    if *first > LATE {
        let text = format!("after {} ms", first.as_millis());
        return Finding::fail("first event", text).because_of(Fault::Buffering);
    }
    let mut least = *first;
    for _ in 1..REPETITIONS {
        if least <= reply + DELAY {
            break;
        }
        if let Ok(again) = listen(target.stream(2, EVERY * 2, false)).await {
            least = again.times.first().map_or(least, |first| least.min(*first));
        }
    }
    let text = format!("after {} ms", least.as_millis());
    if least <= reply + DELAY {
        return Finding::ok("first event", text);
    }
    let reply = reply.as_millis();
    let text =
        format!("{text}, but a reply without a stream after {reply} ms: packets are delayed");
    Finding::warn("first event", text).because_of(Fault::Delay)
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
    let late = late(&arrived.events);
    if late >= CLUMPED {
        return Finding::fail(about, format!("{text}, {late} of them late: they are buffered"))
            .because_of(Fault::Buffering);
    }
    Finding::ok(about, text)
}

/// The number of events that arrive later than the earliest one would suggest.
fn late(events: &[Duration]) -> usize {
    let sent = (0..).map(|number| EVERY * number);
    // The earliest event may be any, so all are compared with the time at which the last was sent.
    let all = EVERY * u32::try_from(events.len()).unwrap_or(u32::MAX);
    let delays: Vec<Duration> =
        events.iter().zip(sent).map(|(event, sent)| (*event + all).saturating_sub(sent)).collect();
    let least = delays.iter().min().copied().unwrap_or_default();
    delays.into_iter().filter(|delay| delay.saturating_sub(least) > EVERY / 2).count()
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
    let mut finding = compressed_once(target).await;
    for _ in 1..TRIES {
        if finding.is_ok() {
            break;
        }
        finding = compressed_once(target).await;
    }
    finding
}

async fn compressed_once(target: &Target) -> Finding {
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

/// Checks that `Location` and the paths in bodies contain the path prefix.
pub(super) async fn location(target: &Target) -> Finding {
    let answer = match head(target.stream(1, Duration::ZERO, false)).await {
        Ok(answer) => answer,
        Err(StreamError { why, .. }) => return Finding::fail("Location", why),
    };
    let text = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(text) = text else { return Finding::warn("Location", "the header was removed") };
    let expected = api_url(&target.base, &["probe", "streams"]);
    let prefix = if target.prefix().is_empty() { "/" } else { target.prefix() };
    let remedy =
        format!("send X-Forwarded-Prefix from a trusted proxy, or use --base-path {prefix}");
    if !answer.url().join(text).is_ok_and(|url| url == expected) {
        let text = format!("is {text} instead of {}: {remedy}", expected.path());
        return Finding::warn("Location", text).because_of(Fault::Prefix);
    }
    let instance = requests::refused_path(target).await;
    if let Some(instance) = instance.filter(|instance| instance != expected.path()) {
        let text = format!("is complete, but bodies have the path {instance}: {remedy}");
        return Finding::warn("Location", text).because_of(Fault::Prefix);
    }
    Finding::ok("Location", "contains the path that clients use, as do bodies")
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

/// Opens a stream, closes it at its first event and returns its id. The service sends nothing more, so
/// only a closed connection can report the disconnect.
async fn open_and_close(target: &Target) -> Result<String, String> {
    let request = target.stream(2, SILENCE, true);
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
        Finding::warn("idle", format!("{text}; the service sends a keep-alive every 10 s"))
    } else {
        Finding::fail("idle", text)
    };
    finding.because_of(Fault::Idle)
}
