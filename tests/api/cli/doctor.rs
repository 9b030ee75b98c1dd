//! `twostep doctor URL`.

use std::time::Duration;

use serde_json::Value;
use twostep::domain::api_key::Scope;

use super::faulty_proxy::{FaultyProxy, ProxyFaults};
use crate::support::{TestApp, binary, keys_needed, outcome, replies};

/// Runs the command against a service behind a proxy with these faults. Returns the exit status and
/// the printed lines.
async fn diagnose(faults: ProxyFaults) -> (Option<i32>, Vec<String>) {
    let app = TestApp::start(replies(&[])).await;
    let proxy = FaultyProxy::of(&app, faults).await;
    run_doctor(&proxy.url, &[]).await
}

/// Runs the command with a URL and options. Returns the exit status and the printed lines.
async fn run_doctor(url: &str, more: &[&str]) -> (Option<i32>, Vec<String>) {
    let (status, stdout, stderr) =
        outcome(binary(&[&["doctor", "--idle", "2", "--wait", "2", url], more].concat())).await;
    assert_eq!(stderr, "");
    (status, stdout.lines().map(str::to_owned).collect())
}

/// The checks that did not pass, and all hints.
fn failures(lines: &[String]) -> (Vec<&str>, Vec<&str>) {
    let (hints, findings): (Vec<&str>, Vec<&str>) =
        lines.iter().map(String::as_str).partition(|line| line.starts_with(' '));
    let failures = findings.into_iter().filter(|line| !line.starts_with("ok    "));
    (
        failures.map(|line| line[..18].trim_end()).collect(),
        hints.iter().map(|hint| hint.trim()).collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_a_proxy_passes_all_checks() {
    let (status, lines) = diagnose(ProxyFaults::default()).await;
    let checks: Vec<&str> = lines.iter().map(|line| line[..18].trim_end()).collect();
    assert_eq!(
        checks,
        [
            "ok    reached",
            "ok    TLS",
            "ok    first event",
            "ok    flow",
            "ok    headers",
            "ok    compression",
            "ok    resume",
            "ok    Location",
            "ok    disconnect",
            "ok    methods",
            "ok    body",
            "ok    ETag",
            "ok    Prefer",
            "ok    idle",
            "ok    slow reply",
        ],
        "{lines:#?}"
    );
    assert_eq!(status, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn buffering_is_detected_and_hints_are_for_the_proxy_in_the_server_header() {
    let (status, lines) = diagnose(ProxyFaults {
        buffers: true,
        server: Some("nginx/1.22.1"),
        ..ProxyFaults::default()
    })
    .await;
    let (found, hints) = failures(&lines);
    let expected = ["fail  first event", "fail  flow", "fail  compression", "fail  disconnect"];
    assert_eq!((status, &found[..]), (Some(1), &expected[..]), "{lines:#?}");
    assert_eq!(hints[..2], ["nginx: proxy_buffering off;"; 2]);
    assert!(hints.iter().all(|hint| hint.starts_with("nginx: ")), "{hints:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn compression_is_detected() {
    let (status, lines) =
        diagnose(ProxyFaults { compresses: true, ..ProxyFaults::default() }).await;
    let (found, hints) = failures(&lines);
    assert_eq!((status, found), (Some(0), vec!["warn  compression"]), "{lines:#?}");
    let names = ["nginx: gzip off;", "Caddy: ", "HAProxy: ", "Traefik: "];
    assert_eq!(hints.len(), 4);
    assert!(hints.iter().zip(names).all(|(hint, name)| hint.starts_with(name)), "{hints:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_timeout_is_detected() {
    let idle_timeout = Some(Duration::from_secs(1));
    let (status, lines) = diagnose(ProxyFaults { idle_timeout, ..ProxyFaults::default() }).await;
    let (found, hints) = failures(&lines);
    assert_eq!((status, found), (Some(1), vec!["fail  idle"]), "{lines:#?}");
    assert_eq!(hints[0], "nginx: proxy_read_timeout 75s;");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_headers_are_detected() {
    let dropped_headers = &["last-event-id", "cache-control"];
    let (status, lines) = diagnose(ProxyFaults { dropped_headers, ..ProxyFaults::default() }).await;
    let (found, hints) = failures(&lines);
    let expected = ["warn  headers", "fail  resume"];
    assert_eq!((status, &found[..]), (Some(1), &expected[..]), "{lines:#?}");
    assert_eq!(hints[0], "nginx: proxy_set_header Last-Event-ID $http_last_event_id;");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_versions_are_detected() {
    for dropped_headers in [&["etag"], &["if-none-match"]] {
        let faults = ProxyFaults { dropped_headers, ..ProxyFaults::default() };
        let (status, lines) = diagnose(faults).await;
        let (found, _) = failures(&lines);
        assert_eq!((status, found), (Some(0), vec!["warn  ETag"]), "{lines:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ignored_disconnect_of_a_client_is_detected() {
    let (status, lines) =
        diagnose(ProxyFaults { ignores_disconnects: true, ..ProxyFaults::default() }).await;
    let (found, hints) = failures(&lines);
    assert_eq!((status, found), (Some(1), vec!["fail  disconnect"]), "{lines:#?}");
    assert_eq!(hints[0], "nginx: proxy_ignore_client_abort off;");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_prefix_that_the_service_does_not_know_is_detected() {
    let (status, lines) =
        diagnose(ProxyFaults { prefix: "/agent", ..ProxyFaults::default() }).await;
    let (found, hints) = failures(&lines);
    assert_eq!((status, found), (Some(0), vec!["warn  Location"]), "{lines:#?}");
    assert_eq!(hints[0], "nginx: proxy_set_header X-Forwarded-Prefix /agent;");
    assert!(lines.iter().any(|line| line.contains("--base-path /agent")), "{lines:#?}");
}

/// Four events late of ten are the least that count; here there are five or more.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_arrive_in_groups_are_detected() {
    let groups = Some(Duration::from_millis(350));
    let (status, lines) = diagnose(ProxyFaults { groups, ..ProxyFaults::default() }).await;
    let (found, hints) = failures(&lines);
    assert_eq!((status, found.contains(&"fail  flow")), (Some(1), true), "{lines:#?}");
    assert!(hints.contains(&"nginx: proxy_buffering off;"), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_service_is_distinguished_from_a_missing_key() {
    let (status, lines) = run_doctor("http://127.0.0.1:1", &[]).await;
    assert_eq!((status, failures(&lines).0), (Some(4), vec!["fail  reached"]), "{lines:?}");

    let app = TestApp::start_with(replies(&[]), keys_needed()).await;
    let (status, lines) = run_doctor(&app.url(""), &[]).await;
    assert_eq!((status, failures(&lines).0), (Some(1), vec!["fail  reached"]), "{lines:?}");
    assert!(lines[0].contains("TWOSTEP_KEY"), "{lines:?}");
    let wrong_path = run_doctor(&app.url("/agent"), &[]).await;
    assert!(wrong_path.1[0].contains("not at this path"), "{wrong_path:?}");

    let tenant = twostep::domain::ids::TenantId::DEFAULT;
    for (scope, expected) in [(Scope::Write, &[][..]), (Scope::Read, &["body"])] {
        let key = app.database.key(tenant, scope).await.reveal();
        let (status, lines) = run_doctor(&app.url(""), &["--key", &key, "--json"]).await;
        let lines: Vec<Value> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((status, lines.len()), (Some(0), 15), "{lines:#?}");
        let unknown = lines.iter().filter(|line| line["level"] != "ok");
        let unknown: Vec<&str> = unknown.map(|line| line["about"].as_str().unwrap()).collect();
        assert_eq!(unknown, expected, "{lines:#?}");
    }
}
