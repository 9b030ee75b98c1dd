//! The checks of requests and single replies.

use std::time::Duration;

use reqwest::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderName, IF_NONE_MATCH, ORIGIN,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::finding::Finding;
use super::hints::Fault;
use super::probe::{Target, cause};
use crate::cli::json::non_empty_string;
use crate::domain::ids::SessionId;

/// The path of the probes. It has only GET: the service refuses all other methods.
const PROBES: [&str; 2] = ["probe", "streams"];
/// The methods of the API besides GET.
const METHODS: [Method; 4] = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
/// The size of a large message; the default of `--max-message-mb` is 32.
const BODY: usize = 32_000_000;
/// Time that a reply may take in addition to the time that it waits.
const SLOW: Duration = Duration::from_secs(15);

/// Sends a request, and returns the response or the cause of its absence.
async fn send(request: RequestBuilder) -> Result<Response, String> {
    request.send().await.map_err(cause)
}

/// Returns whether a refusal comes from the service, whose errors are problem documents.
fn is_problem(answer: &Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/problem+json"))
}

/// The path of a refused request, as the service states it.
pub(super) async fn refused_path(target: &Target) -> Option<String> {
    let answer = send(target.request(Method::POST, &PROBES)).await.ok()?;
    let problem: Value = answer.json().await.ok()?;
    non_empty_string(&problem, "instance").map(str::to_owned)
}

/// Checks that all methods reach the service.
pub(super) async fn methods(target: &Target) -> Finding {
    let mut refused = Vec::new();
    for method in METHODS {
        match send(target.request(method.clone(), &PROBES)).await {
            Ok(answer) if is_problem(&answer) => {}
            Ok(answer) => refused.push(format!("{method}: {}", answer.status())),
            Err(why) => refused.push(format!("{method}: {why}")),
        }
    }
    if refused.is_empty() {
        return Finding::ok("methods", "POST, PUT, PATCH and DELETE reach the service");
    }
    let text = format!("refused before the service: {}", refused.join("; "));
    Finding::fail("methods", text).because_of(Fault::Methods)
}

/// Checks that a large body reaches the service, which refuses it because it is not JSON.
pub(super) async fn body(target: &Target) -> Finding {
    let id = SessionId::new().to_string();
    let path = ["sessions", &*id, "messages"];
    let post = |body: Vec<u8>| {
        let request = target.request(Method::POST, &path);
        send(request.header(CONTENT_TYPE, "application/json").body(body))
    };
    let megabytes = BODY / 1_000_000;
    match post(Vec::new()).await {
        Ok(answer) if is_problem(&answer) && answer.status() == StatusCode::FORBIDDEN => {
            return Finding::warn("body", "unknown: the key lacks the scope `write`");
        }
        Ok(_) => {}
        Err(why) => return Finding::fail("body", why),
    }
    let text = match post(vec![b'x'; BODY]).await {
        Ok(answer) if is_problem(&answer) => match answer.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                return Finding::ok("body", "the service accepts less; see --max-message-mb");
            }
            _ => return Finding::ok("body", format!("{megabytes} MB reach the service")),
        },
        Ok(answer) => format!("{megabytes} MB do not reach the service: {}", answer.status()),
        Err(why) => format!("{megabytes} MB do not reach the service: {why}"),
    };
    Finding::fail("body", text).because_of(Fault::Body)
}

/// Checks that versions of resources pass: `ETag` in a response, and `If-None-Match` in a request.
pub(super) async fn versions(target: &Target) -> Finding {
    let about = "ETag";
    let list = || target.get(&["agents"], &[("limit", "1")]).header(ACCEPT_ENCODING, "gzip");
    let first = match send(list()).await {
        Ok(answer) if answer.status().is_success() => answer,
        Ok(answer) => return Finding::fail(about, format!("the response is {}", answer.status())),
        Err(why) => return Finding::fail(about, why),
    };
    let Some(tag) = first.headers().get(ETAG).cloned() else {
        return Finding::warn(
            about,
            "was removed: clients cannot detect that an object has changed",
        );
    };
    match send(list().header(IF_NONE_MATCH, &tag)).await {
        Ok(answer) if answer.status() == StatusCode::NOT_MODIFIED => {
            let is_weak = tag.as_bytes().starts_with(b"W/");
            let weak =
                if is_weak { "; compression makes it weak, see docs/proxies.md" } else { "" };
            Finding::ok(about, format!("passes, as does If-None-Match{weak}"))
        }
        Ok(answer) => {
            let status = answer.status();
            let text =
                format!("was changed, or If-None-Match was removed: {status} instead of 304");
            Finding::warn(about, text)
        }
        Err(why) => Finding::fail(about, why),
    }
}

/// The values of a header, also of those in one line.
fn values(headers: &HeaderMap, name: HeaderName) -> Vec<String> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',').map(|value| value.trim().to_owned())).collect()
}

/// Checks that a web page of this origin can call the service. Without an origin, it is only checked
/// that the CORS header is not doubled.
pub(super) async fn cors(target: &Target, page: Option<&Url>) -> Option<Finding> {
    let origin = page.unwrap_or(&target.base).origin().ascii_serialization();
    let request = target.request(Method::GET, &PROBES).header(ORIGIN, &origin);
    let answer = match send(request).await {
        Ok(answer) => answer,
        Err(why) => return Some(Finding::fail("CORS", why)),
    };
    let allowed = values(answer.headers(), ACCESS_CONTROL_ALLOW_ORIGIN);
    if allowed.len() > 1 {
        let text = format!(
            "Access-Control-Allow-Origin has {} values, {}: browsers refuse the response",
            allowed.len(),
            allowed.join(" and ")
        );
        return Some(Finding::fail("CORS", text).because_of(Fault::Cors));
    }
    page?;
    if !allowed.iter().any(|value| *value == origin || value == "*") {
        let text = format!("pages of {origin} may not read replies: name it in --cors-origins");
        return Some(Finding::fail("CORS", text));
    }
    Some(preflight(target, &origin).await)
}

async fn preflight(target: &Target, origin: &str) -> Finding {
    let request = target.request(Method::OPTIONS, &PROBES).header(ORIGIN, origin);
    let request = request.header(ACCESS_CONTROL_REQUEST_METHOD, "PATCH");
    let request = request.header(ACCESS_CONTROL_REQUEST_HEADERS, "authorization,content-type");
    let answer = match send(request).await {
        Ok(answer) => answer,
        Err(why) => return Finding::fail("CORS", why).because_of(Fault::Preflight),
    };
    let methods = values(answer.headers(), ACCESS_CONTROL_ALLOW_METHODS);
    let allowed = values(answer.headers(), ACCESS_CONTROL_ALLOW_ORIGIN);
    let is_allowed = methods.iter().any(|method| method == "PATCH" || method == "*");
    if answer.status().is_success() && is_allowed && allowed.len() == 1 {
        return Finding::ok("CORS", format!("pages of {origin} can call the service"));
    }
    let text = format!("the reply to OPTIONS is {} and does not allow PATCH", answer.status());
    Finding::fail("CORS", text).because_of(Fault::Preflight)
}

/// A request whose reply takes this time.
fn waiting(target: &Target, seconds: u64) -> RequestBuilder {
    let request = target.request(Method::GET, &PROBES).header("prefer", format!("wait={seconds}"));
    request.timeout(Duration::from_secs(seconds) + SLOW)
}

/// Checks that `Prefer` reaches the service.
pub(super) async fn prefer(target: &Target) -> Finding {
    let begun = Instant::now();
    match send(waiting(target, 1)).await {
        Ok(answer) if !answer.status().is_success() => {
            Finding::fail("Prefer", format!("the response is {}", answer.status()))
        }
        Ok(_) if begun.elapsed() >= Duration::from_secs(1) => {
            Finding::ok("Prefer", "reaches the service")
        }
        Ok(_) => {
            let text = "was removed: the reply to a message never contains its answer";
            Finding::fail("Prefer", text).because_of(Fault::Prefer)
        }
        Err(why) => Finding::fail("Prefer", why),
    }
}

/// Checks that a reply arrives after this number of seconds.
pub(super) async fn reply(target: &Target, seconds: u64) -> Finding {
    let begun = Instant::now();
    let sent = timeout(Duration::from_secs(seconds) + SLOW, send(waiting(target, seconds))).await;
    let after = begun.elapsed().as_secs_f32();
    let why = match sent {
        Ok(Ok(answer)) if answer.status().is_success() => {
            return Finding::ok("slow reply", format!("arrives after {seconds} s"));
        }
        Ok(Ok(answer)) => format!("the response is {}", answer.status()),
        Ok(Err(why)) => why,
        Err(_) => "no response".to_owned(),
    };
    let text = format!("a reply after {seconds} s does not arrive: {why} after {after:.1} s");
    Finding::fail("slow reply", text).because_of(Fault::Reply)
}
