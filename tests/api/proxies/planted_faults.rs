//! Faults in the configuration of real proxies, which `twostep doctor URL` must find.

use futures::stream::{StreamExt as _, iter};

use super::processes::{ProxyKind, RunningProxy};
use crate::support::{Setup, TestApp, binary, outcome, replies};

/// A fault in a documented configuration.
struct PlantedFault {
    kind: ProxyKind,
    /// The change of the configuration.
    change: (&'static str, &'static str),
    /// The expected line: its first words, and a part of its text.
    found: (&'static str, &'static str),
    /// The expected advice; empty if there is none.
    advice: &'static str,
}

/// A line of each configuration after which lines can be added.
const NGINX: &str = "proxy_set_header X-Forwarded-Prefix /agent;";
const CADDY: &str = "header_up X-Forwarded-Prefix /agent";
const HAPROXY: &str = "http-request set-header X-Forwarded-Prefix /agent";

/// Fifteen faults. The sixteenth, events that arrive in groups, is planted in `cli/doctor.rs`, because
/// no proxy has a setting for it.
const FAULTS: [PlantedFault; 15] = [
    PlantedFault {
        kind: ProxyKind::Caddy,
        change: (CADDY, "header_up X-Forwarded-Prefix /agent\nbuffer_responses"),
        found: ("fail  first event", "after "),
        advice: "Caddy: remove buffer_responses or response_buffers from reverse_proxy",
    },
    PlantedFault {
        kind: ProxyKind::HaProxy,
        change: ("    option http-no-delay\n", ""),
        found: ("fail  flow", "they are buffered"),
        advice: "HAProxy: option http-no-delay",
    },
    PlantedFault {
        kind: ProxyKind::Nginx,
        change: (
            "client_max_body_size 33m;",
            "client_max_body_size 33m; gzip on; gzip_types text/event-stream; gzip_min_length 0; gzip_proxied any;",
        ),
        found: ("warn  compression", "compressed with gzip"),
        advice: "nginx: gzip off;",
    },
    PlantedFault {
        kind: ProxyKind::Nginx,
        change: ("proxy_read_timeout 150s;", "proxy_read_timeout 2s;"),
        found: ("fail  idle", "is closed after"),
        advice: "nginx: proxy_read_timeout 75s;",
    },
    PlantedFault {
        kind: ProxyKind::Caddy,
        change: (
            CADDY,
            "header_up X-Forwarded-Prefix /agent\ntransport http {\nresponse_header_timeout 2s\n}",
        ),
        found: ("fail  slow reply", "a reply after 3 s does not arrive: the response is 504"),
        advice: "Caddy: remove response_header_timeout from transport http, or set it to 150s",
    },
    PlantedFault {
        kind: ProxyKind::Caddy,
        change: (CADDY, "header_up X-Forwarded-Prefix /agent\nflush_interval -1"),
        found: ("fail  disconnect", "keeps streaming"),
        advice: "Caddy: remove flush_interval -1 from reverse_proxy",
    },
    PlantedFault {
        kind: ProxyKind::Nginx,
        change: (
            NGINX,
            "proxy_set_header X-Forwarded-Prefix /agent;\nproxy_set_header Last-Event-ID \"\";",
        ),
        found: ("fail  resume", "Last-Event-ID was removed"),
        advice: "nginx: proxy_set_header Last-Event-ID $http_last_event_id;",
    },
    PlantedFault {
        kind: ProxyKind::Caddy,
        change: (CADDY, "header_up X-Forwarded-Prefix /agent\nheader_down -Cache-Control"),
        found: ("warn  headers", "no-transform was removed"),
        advice: "",
    },
    PlantedFault {
        kind: ProxyKind::HaProxy,
        change: (HAPROXY, ""),
        found: ("warn  Location", "is /v1/probe/streams instead of /agent/v1/probe/streams"),
        advice: "HAProxy: http-request set-header X-Forwarded-Prefix /agent",
    },
    PlantedFault {
        kind: ProxyKind::Nginx,
        change: (NGINX, "proxy_redirect / /agent/;"),
        found: ("warn  Location", "bodies have the path /v1/probe/streams"),
        advice: "nginx: proxy_set_header X-Forwarded-Prefix /agent;",
    },
    PlantedFault {
        kind: ProxyKind::Nginx,
        change: ("client_max_body_size 33m;", ""),
        found: ("fail  body", "32 MB do not reach the service: 413"),
        advice: "nginx: client_max_body_size 33m;",
    },
    PlantedFault {
        kind: ProxyKind::HaProxy,
        change: (
            HAPROXY,
            "http-request set-header X-Forwarded-Prefix /agent\n    http-request deny if !{ method GET POST OPTIONS }",
        ),
        found: ("fail  methods", "PUT: 403 Forbidden; PATCH: 403 Forbidden; DELETE: 403 Forbidden"),
        advice: "HAProxy: remove http-request deny for methods",
    },
    PlantedFault {
        kind: ProxyKind::Nginx,
        change: (
            "add_header Access-Control-Allow-Origin $error_origin always;",
            "add_header Access-Control-Allow-Origin $http_origin always;",
        ),
        found: ("fail  CORS", "has 2 values"),
        advice: "nginx: proxy_hide_header Access-Control-Allow-Origin;, or remove add_header",
    },
    PlantedFault {
        kind: ProxyKind::HaProxy,
        change: (
            HAPROXY,
            "http-request set-header X-Forwarded-Prefix /agent\n    http-request del-header Prefer",
        ),
        found: ("fail  Prefer", "was removed"),
        advice: "HAProxy: remove http-request del-header Prefer",
    },
    PlantedFault {
        kind: ProxyKind::Caddy,
        change: (
            CADDY,
            "header_up X-Forwarded-Prefix /agent\n}\n@preflight method OPTIONS\nhandle @preflight {\nrespond 204",
        ),
        found: ("fail  CORS", "the reply to OPTIONS is 204 No Content and does not allow PATCH"),
        advice: "Caddy: remove the respond for OPTIONS",
    },
];

/// The lines that the command prints about the service behind a proxy with a change.
async fn diagnosed(app: &TestApp, kind: ProxyKind, changes: &[(&str, &str)]) -> Vec<String> {
    let proxy = RunningProxy::start_changed(app.address, kind, changes).await;
    let url = proxy.url("/agent/");
    let options = ["--idle", "3", "--wait", "3", "--origin", "https://app.example"];
    let (_, stdout, stderr) = outcome(binary(&[&["doctor", &url], &options[..]].concat())).await;
    assert_eq!(stderr, "", "{kind:?}");
    proxy.stop().await;
    stdout.lines().map(str::to_owned).collect()
}

async fn app() -> TestApp {
    let setup = Setup { cors_origins: vec!["https://app.example"], ..Setup::default() };
    TestApp::start_with(replies(&[]), setup).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_configurations_have_no_fault() {
    let app = app().await;
    for kind in ProxyKind::installed() {
        let lines = diagnosed(&app, kind, &[]).await;
        assert!(lines.iter().all(|line| line.starts_with("ok ")), "{kind:?}: {lines:#?}");
        assert_eq!(lines.len(), 16, "{kind:?}: {lines:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_planted_fault_is_found_with_advice_for_its_proxy() {
    let app = app().await;
    let installed = ProxyKind::installed();
    let planted = FAULTS.iter().filter(|fault| installed.contains(&fault.kind));
    let diagnosed =
        planted.map(async |fault| (fault, diagnosed(&app, fault.kind, &[fault.change]).await));
    let mut diagnosed = iter(diagnosed).buffer_unordered(4);
    let mut missed = Vec::new();
    while let Some((fault, lines)) = diagnosed.next().await {
        let (word, text) = fault.found;
        let found = lines.iter().position(|line| line.starts_with(word) && line.contains(text));
        let after = found.map(|number| lines[number + 1..].iter());
        let mut advice = after.into_iter().flatten().take_while(|line| line.starts_with(' '));
        let is_advised = fault.advice.is_empty() || advice.any(|line| line.trim() == fault.advice);
        if found.is_none() || !is_advised {
            missed.push((fault.found, fault.advice, lines));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
