//! `twostep doctor URL`.

use std::time::Duration;

use serde_json::Value;

use super::faulty_proxy::{Front, Habits};
use crate::support::{TestApp, binary, keys_needed, outcome, replies};

/// What the doctor says of a service behind something with these habits: the status, and the lines.
async fn look(habits: Habits) -> (Option<i32>, Vec<String>) {
    let app = TestApp::start(replies(&[])).await;
    let front = Front::of(&app, habits).await;
    look_at(&front.url, &[]).await
}

async fn look_at(url: &str, more: &[&str]) -> (Option<i32>, Vec<String>) {
    let (status, stdout, stderr) =
        outcome(binary(&[&["doctor", "--idle", "2", url], more].concat())).await;
    assert_eq!(stderr, "");
    (status, stdout.lines().map(str::to_owned).collect())
}

/// What was looked at and found to be less than good, and all that is said to be changed.
fn bad(lines: &[String]) -> (Vec<&str>, Vec<&str>) {
    let (hints, findings): (Vec<&str>, Vec<&str>) =
        lines.iter().map(String::as_str).partition(|line| line.starts_with(' '));
    let bad = findings.into_iter().filter(|line| !line.starts_with("ok    "));
    (
        bad.map(|line| line[..18].trim_end()).collect(),
        hints.iter().map(|hint| hint.trim()).collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_nothing_before_it_is_well() {
    let (status, lines) = look(Habits::default()).await;
    let about: Vec<&str> = lines.iter().map(|line| line[..18].trim_end()).collect();
    assert_eq!(
        about,
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
            "ok    idle",
        ],
        "{lines:#?}"
    );
    assert_eq!(status, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn buffers_are_noticed_and_the_line_is_that_of_the_proxy_that_names_itself() {
    let (status, lines) =
        look(Habits { buffers: true, server: Some("nginx/1.22.1"), ..Habits::default() }).await;
    let (found, hints) = bad(&lines);
    let expected = ["fail  first event", "fail  flow", "fail  compression", "fail  disconnect"];
    assert_eq!((status, &found[..]), (Some(1), &expected[..]), "{lines:#?}");
    assert_eq!(hints[..2], ["nginx: proxy_buffering off;"; 2]);
    assert!(hints.iter().all(|hint| hint.starts_with("nginx: ")), "{hints:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn compression_is_noticed() {
    let (status, lines) = look(Habits { compresses: true, ..Habits::default() }).await;
    let (found, hints) = bad(&lines);
    assert_eq!((status, found), (Some(0), vec!["warn  compression"]), "{lines:#?}");
    let names = ["nginx: gzip off;", "Caddy: ", "HAProxy: ", "Traefik: "];
    assert_eq!(hints.len(), 4);
    assert!(hints.iter().zip(names).all(|(hint, name)| hint.starts_with(name)), "{hints:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_that_is_taken_for_an_end_is_noticed() {
    let cuts_after = Some(Duration::from_secs(1));
    let (status, lines) = look(Habits { cuts_after, ..Habits::default() }).await;
    let (found, hints) = bad(&lines);
    assert_eq!((status, found), (Some(1), vec!["fail  idle"]), "{lines:#?}");
    assert_eq!(hints[0], "nginx: proxy_read_timeout 75s;");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_get_lost_are_noticed() {
    let loses = &["last-event-id", "cache-control"];
    let (status, lines) = look(Habits { loses, ..Habits::default() }).await;
    let (found, hints) = bad(&lines);
    let expected = ["warn  headers", "fail  resume"];
    assert_eq!((status, &found[..]), (Some(1), &expected[..]), "{lines:#?}");
    assert_eq!(hints[0], "nginx: proxy_set_header Last-Event-ID $http_last_event_id;");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_unheard_is_noticed() {
    let (status, lines) = look(Habits { listens_on: true, ..Habits::default() }).await;
    let (found, hints) = bad(&lines);
    assert_eq!((status, found), (Some(1), vec!["fail  disconnect"]), "{lines:#?}");
    assert_eq!(hints[0], "nginx: proxy_ignore_client_abort off;");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_the_service_does_not_know_of_leads_nowhere() {
    let (status, lines) = look(Habits { prefix: "/agent", ..Habits::default() }).await;
    let (found, _) = bad(&lines);
    assert_eq!((status, found), (Some(0), vec!["warn  Location"]), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_reached_is_told_from_what_lets_nobody_in() {
    let (status, lines) = look_at("http://127.0.0.1:1", &[]).await;
    assert_eq!((status, bad(&lines).0), (Some(4), vec!["fail  reached"]), "{lines:?}");

    let app = TestApp::start_with(replies(&[]), keys_needed()).await;
    let (status, lines) = look_at(&app.url(""), &[]).await;
    assert_eq!((status, bad(&lines).0), (Some(1), vec!["fail  reached"]), "{lines:?}");
    assert!(lines[0].contains("TWOSTEP_KEY"), "{lines:?}");
    let elsewhere = look_at(&app.url("/agent"), &[]).await;
    assert!(elsewhere.1[0].contains("not at this path"), "{elsewhere:?}");

    let tenant = twostep::domain::ids::TenantId::DEFAULT;
    let key = app.database.key(tenant, twostep::domain::api_key::Scope::Read).await.reveal();
    let (status, lines) = look_at(&app.url(""), &["--key", &key, "--json"]).await;
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((status, lines.len()), (Some(0), 10), "{lines:#?}");
    assert!(lines.iter().all(|line| line["level"] == "ok"), "{lines:#?}");
}
