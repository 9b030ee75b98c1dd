//! The looks at the way to a service, one after the other.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::finding::Finding;
use super::hints::{Proxy, Trouble};
use super::probe::{Arrived, NotReached, Way, head, listen};
use crate::cli::client::beneath;
use crate::cli::json::{items, some_word, word};

/// Events of an even flow, and the time between two.
const FLOW: usize = 10;
const EVERY: Duration = Duration::from_millis(200);
/// How late a first event may be: people wait for it.
const LATE: Duration = Duration::from_secs(1);
/// How soon the service should hear that a client has left. It notices when it next writes.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// The service is never silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A service that was reached, and what stands before it.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) findings: Vec<Finding>,
    pub(super) proxies: Vec<Proxy>,
}

/// Whether the service is there, and how it is spoken to.
pub(super) async fn reach(way: &Way) -> Result<Reached, NotReached> {
    let begun = Instant::now();
    let answer = head(way.get(&["probe", "streams"], &[])).await?;
    let took = begun.elapsed().as_millis();
    let named = Proxy::of(answer.headers());
    let behind = named.map(|proxy| format!(", behind {}", proxy.name())).unwrap_or_default();
    let text = format!("{:?} in {took} ms{behind}", answer.version());
    let proxies = named.map_or(Proxy::ALL.to_vec(), |proxy| vec![proxy]);
    let body: Option<Value> = answer.json().await.ok();
    if !body.is_some_and(|body| body.get("data").is_some_and(Value::is_array)) {
        let why = "something answers that is not the service".to_owned();
        return Err(NotReached { why, is_away: false });
    }
    let host = way.base.host_str().unwrap_or_default();
    let is_here = host == "localhost" || host.starts_with("127.") || host == "[::1]";
    let tls = match way.base.scheme() {
        "https" => Finding::ok("TLS", "the certificate is good"),
        _ if is_here => Finding::ok("TLS", "none, and none is needed on this machine"),
        _ => Finding::warn("TLS", "none: keys and answers can be read on the way"),
    };
    Ok(Reached { findings: vec![Finding::ok("reached", text), tls], proxies })
}

/// Whether events come as they are sent.
pub(super) async fn flow(way: &Way) -> Vec<Finding> {
    match listen(way.stream(FLOW, EVERY, false)).await {
        Ok(arrived) => vec![first(&arrived), pieces("flow", &arrived), kept(&arrived)],
        Err(NotReached { why, .. }) => vec![Finding::fail("flow", why)],
    }
}

fn first(arrived: &Arrived) -> Finding {
    let Some(first) = arrived.times.first() else {
        return Finding::fail("first event", "nothing came").because_of(Trouble::Buffering);
    };
    let text = format!("after {} ms", first.as_millis());
    if *first > LATE {
        return Finding::fail("first event", text).because_of(Trouble::Buffering);
    }
    Finding::ok("first event", text)
}

/// Whether a flow arrived as evenly as it was sent.
fn pieces(about: &'static str, arrived: &Arrived) -> Finding {
    let (Some(first), Some(last)) = (arrived.times.first(), arrived.times.last()) else {
        return Finding::fail(about, "nothing came").because_of(Trouble::Buffering);
    };
    // What comes within half of the time between two events has been held back together.
    let is_apart = |pair: &&[Duration]| matches!(pair, [a, b] if b.saturating_sub(*a) > EVERY / 2);
    let apart = arrived.times.windows(2).filter(is_apart);
    let lumps = apart.count() + 1;
    let span = last.saturating_sub(*first).as_millis();
    let text = format!("{FLOW} events in {lumps} pieces over {span} ms");
    if !arrived.is_whole {
        return Finding::fail(about, format!("{text}, and then the stream broke"));
    }
    if lumps * 2 < FLOW {
        return Finding::fail(about, format!("{text}: they are held back"))
            .because_of(Trouble::Buffering);
    }
    Finding::ok(about, text)
}

/// Whether what tells browsers and proxies what this is has arrived.
fn kept(arrived: &Arrived) -> Finding {
    let header = |name| arrived.headers.get(name).and_then(|value| value.to_str().ok());
    let kind = header(CONTENT_TYPE).unwrap_or("nothing");
    if !kind.starts_with("text/event-stream") {
        return Finding::fail("headers", format!("the type of the stream has become {kind}"));
    }
    if !header(CACHE_CONTROL).is_some_and(|control| control.contains("no-transform")) {
        let text = "Cache-Control: no-transform is lost, so others on the way may compress";
        return Finding::warn("headers", text);
    }
    Finding::ok("headers", format!("as sent, by {:?}", arrived.version))
}

/// Whether it is compressed for those who take that, as browsers do, and what becomes of it then.
pub(super) async fn compressed(way: &Way) -> Finding {
    let request = way.stream(FLOW, EVERY, false).header(ACCEPT_ENCODING, "gzip, br, zstd");
    let arrived = match listen(request).await {
        Ok(arrived) => arrived,
        Err(NotReached { why, .. }) => return Finding::fail("compression", why),
    };
    let coding = arrived.headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok());
    let Some(coding) = coding else { return pieces("compression", &arrived) };
    let finding = pieces("compression", &arrived);
    let text = format!("the stream is compressed by {coding}; ");
    finding.worse(text).because_of(Trouble::Compression)
}

/// Whether a client that comes back gets what it missed.
pub(super) async fn resume(way: &Way) -> Finding {
    let request = way.stream(5, Duration::ZERO, false).header("last-event-id", "3");
    match listen(request).await.map(|arrived| arrived.numbers()) {
        Ok(numbers) if numbers == [4, 5] => Finding::ok("resume", "by Last-Event-ID"),
        Ok(numbers) => {
            let text = format!("behind event 3 came {numbers:?}: Last-Event-ID is lost");
            Finding::fail("resume", text).because_of(Trouble::LastEventId)
        }
        Err(NotReached { why, .. }) => Finding::fail("resume", why),
    }
}

/// Whether `Location` leads back here.
pub(super) async fn location(way: &Way) -> Finding {
    let answer = match head(way.stream(1, Duration::ZERO, false)).await {
        Ok(answer) => answer,
        Err(NotReached { why, .. }) => return Finding::fail("Location", why),
    };
    let text = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(text) = text else { return Finding::warn("Location", "it is lost on the way") };
    let expected = beneath(&way.base, &["probe", "streams"]);
    if answer.url().join(text).is_ok_and(|url| url == expected) {
        return Finding::ok("Location", "leads back");
    }
    Finding::warn("Location", format!("leads to {text}, and not to {}", expected.path()))
        .because_of(Trouble::Location)
}

/// Whether the service hears that a client has left.
pub(super) async fn leave(way: &Way) -> Finding {
    let about = "leaving";
    let id = match begun(way).await {
        Ok(id) => id,
        Err(why) => return Finding::fail(about, why),
    };
    let left = Instant::now();
    loop {
        match state(way, &id).await {
            Some(state) if state == "left" => {
                let heard = left.elapsed().as_millis();
                return Finding::ok(
                    about,
                    format!("the service has heard of it within {heard} ms"),
                );
            }
            None => {
                let text = "it cannot be told: another process has answered";
                return Finding::warn(about, text);
            }
            Some(_) if left.elapsed() > HEARD_WITHIN => {
                let text = "the service goes on streaming to a client that has left";
                return Finding::fail(about, text).because_of(Trouble::Leaving);
            }
            Some(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Begins a long stream and leaves it at its first event, which tells its id.
async fn begun(way: &Way) -> Result<String, String> {
    let request = way.stream(200, EVERY, false);
    let mut answer = head(request).await.map_err(|NotReached { why, .. }| why)?;
    let mut text = String::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        text.push_str(&String::from_utf8_lossy(&piece));
        let data = text.lines().find_map(|line| line.strip_prefix("data: "));
        let event = data.and_then(|data| serde_json::from_str::<Value>(data).ok());
        if let Some(id) = event.and_then(|event| some_word(&event, "probe_id").map(str::to_owned)) {
            return Ok(id);
        }
    }
    Err("the stream ended before it had begun".to_owned())
}

/// What the service says of a stream; none if it knows nothing of it.
async fn state(way: &Way, id: &str) -> Option<String> {
    let answer = head(way.get(&["probe", "streams"], &[])).await.ok()?;
    let page: Value = answer.json().await.ok()?;
    let probe = items(&page, "data").iter().find(|probe| word(probe, "id") == id)?;
    Some(word(probe, "state").to_owned())
}

/// Whether a stream survives silence.
pub(super) async fn idle(way: &Way, silence: Duration) -> Finding {
    let seconds = silence.as_secs();
    let arrived = match listen(way.stream(2, silence, true)).await {
        Ok(arrived) => arrived,
        Err(NotReached { why, .. }) => return Finding::fail("silence", why),
    };
    if arrived.is_whole && arrived.numbers() == [1, 2] {
        return Finding::ok("silence", format!("a stream survives {seconds} s of it"));
    }
    let heard = arrived.times.first().copied().unwrap_or_default();
    let after = arrived.ended.saturating_sub(heard);
    let text = format!("a stream is cut after {:.1} s of it", after.as_secs_f32());
    let finding = if after > KEEP_ALIVE {
        Finding::warn("silence", format!("{text}; the service is silent for 15 s at most"))
    } else {
        Finding::fail("silence", text)
    };
    finding.because_of(Trouble::Idle)
}
