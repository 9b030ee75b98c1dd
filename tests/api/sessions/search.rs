//! Search of sessions by status, metadata, words and creation time.

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;

use crate::support::{
    Session, TestApp, asks, calls_as, client_with, keys_needed, problem, replies, says,
};

/// The path of the list with this query.
fn path(query: &[(&str, &str)]) -> String {
    let escaped = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => {
                    char::from(byte).to_string()
                }
                byte => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs = query.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
    format!("/v1/sessions?{}", pairs.collect::<Vec<String>>().join("&"))
}

/// The titles of the sessions that a query finds, in order.
async fn found(app: &TestApp, query: &[(&str, &str)]) -> Vec<String> {
    let response = app.get(&path(query)).send().await.unwrap();
    assert_eq!(response.status(), 200, "{query:?}");
    let page: Value = response.json().await.unwrap();
    let title = |session: &Value| session["title"].as_str().unwrap().to_owned();
    page["data"].as_array().unwrap().iter().map(title).collect()
}

async fn create_session<'a>(app: &'a TestApp, title: &str, metadata: Value) -> Session<'a> {
    app.session_with(json!({ "title": title, "metadata": metadata })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_by_their_status() {
    let ring = calls_as(&[("toolu_01ring", "ring", json!({ "line": "one" }))]);
    let script = json!({ "conversations": [
        { "when": "hang", "replies": [{ "content": [{ "type": "text", "text": "Well" }],
                                        "hang_after": 4 }] },
        { "when": "Ring", "replies": [ring, says("Rang.")] },
        { "replies": [says("Yes.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, asks()).await;
    let idle = create_session(&app, "idle", json!({})).await;
    let running = create_session(&app, "running", json!({})).await;
    let waiting = create_session(&app, "waiting", json!({})).await;
    idle.ask("Hello").await;
    let hanging = running.post(json!({ "content": "hang" })).await;
    running.reached(&hanging, "span.model_request_start").await;
    let ringing = waiting.post(json!({ "content": "Ring" })).await;
    waiting.waits_for(&ringing, &["toolu_01ring"]).await;
    for (status, expected) in [
        ("running", vec!["running"]),
        ("requires_action", vec!["waiting"]),
        ("idle", vec!["waiting", "idle"]),
        ("queued", vec![]),
    ] {
        assert_eq!(found(&app, &[("status", status)]).await, expected, "{status}");
    }
    running.cancel(&hanging).await;
    running.settled(&hanging).await;
    waiting.allow("toolu_01ring", json!({})).await;
    waiting.settled(&ringing).await;
    let all = ["waiting", "running", "idle"];
    assert_eq!(found(&app, &[("status", "idle")]).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_run_waits_for_a_worker_is_found_as_queued() {
    let setup = crate::support::Setup { no_worker: true, ..Default::default() };
    let app = TestApp::start_with(json!({}), setup).await;
    create_session(&app, "idle", json!({})).await;
    let session = create_session(&app, "queued", json!({})).await;
    let run = session.post(json!({ "content": "Hello" })).await;
    assert_eq!(found(&app, &[("status", "queued")]).await, ["queued"]);
    assert_eq!(found(&app, &[("status", "idle")]).await, ["idle"]);
    session.cancel(&run).await;
    assert_eq!(found(&app, &[("status", "queued")]).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_by_members_of_their_metadata() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let long = "x".repeat(10_000);
    let red = create_session(
        &app,
        "red",
        json!({ "colour": "red", "n": 1, "a:b": "c", "deep": { "n": 1 } }),
    );
    let red = red.await;
    create_session(&app, "green", json!({ "colour": "green", "n": 1.0, "on": true, "long": long }))
        .await;
    // A NUL cannot be stored as text, so this value is never found.
    create_session(&app, "odd", json!({ "colour": "red\u{0}", "n": 1 })).await;
    create_session(&app, "plain", json!({})).await;
    for (query, expected) in [
        (vec![("metadata[colour]", "red")], vec!["red"]),
        (vec![("metadata[colour]", "re")], vec![]),
        (vec![("metadata[n]", "1")], vec!["red"]),
        (vec![("metadata[n]", "1.0")], vec!["green"]),
        (vec![("metadata[on]", "true")], vec!["green"]),
        (vec![("metadata[long]", &*long)], vec!["green"]),
        (vec![("metadata[a:b]", "c")], vec!["red"]),
        (vec![("metadata[a]", "b:c")], vec![]),
        (vec![("metadata[deep]", r#"{"n":1}"#)], vec![]),
        (vec![("metadata[colour]", "green"), ("metadata[on]", "true")], vec!["green"]),
        (vec![("metadata[colour]", "red"), ("metadata[on]", "true")], vec![]),
    ] {
        assert_eq!(found(&app, &query).await, expected, "{query:?}");
    }
    let patch = app.client.patch(app.url(&red.path("")));
    let patch = patch.json(&json!({ "metadata": { "colour": "blue" } }));
    assert_eq!(patch.send().await.unwrap().status(), 200);
    assert_eq!(found(&app, &[("metadata[colour]", "red")]).await, Vec::<String>::new());
    assert_eq!(found(&app, &[("metadata[colour]", "blue")]).await, ["red"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_by_words_of_titles_and_of_user_messages() {
    let app = TestApp::start(replies(&[says("An elephant.")])).await;
    let zoo = create_session(&app, "At the Zoo", json!({})).await;
    zoo.ask("Which animal is the largest?").await;
    zoo.ask_with(json!({ "content": [{ "type": "text", "text": "Straße,\nnicht" }] })).await;
    let office = create_session(&app, "Büro", json!({})).await;
    office.ask("Which printer is the largest? \"Straße\"").await;
    let long = "word ".repeat(2_000);
    create_session(&app, "long", json!({})).await.ask(&format!("begins {long} ends")).await;
    for (q, expected) in [
        ("largest", vec!["Büro", "At the Zoo"]),
        ("LARGEST animal", vec!["At the Zoo"]),
        ("straße nicht", vec!["At the Zoo"]),
        ("büro", vec!["Büro"]),
        ("the zoo", vec!["At the Zoo"]),
        // All words must be in the same text.
        ("zoo animal", vec![]),
        // Replies of the model are not searched.
        ("elephant", vec![]),
        ("larg", vec![]),
        ("begins", vec!["long"]),
        ("ends", vec![]),
        ("!!!", vec![]),
        ("largest & | ! ( '", vec!["Büro", "At the Zoo"]),
    ] {
        assert_eq!(found(&app, &[("q", q)]).await, expected, "{q}");
    }
    assert_eq!(found(&app, &[("q", "largest"), ("order", "asc")]).await, ["At the Zoo", "Büro"]);
    let patch = app.client.patch(app.url(&zoo.path(""))).json(&json!({ "title": "At the farm" }));
    assert_eq!(patch.send().await.unwrap().status(), 200);
    assert_eq!(found(&app, &[("q", "zoo")]).await, Vec::<String>::new());
    assert_eq!(found(&app, &[("q", "farm")]).await, ["At the farm"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_by_their_creation_time() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    create_session(&app, "first", json!({})).await;
    let second = create_session(&app, "second", json!({})).await;
    create_session(&app, "third", json!({})).await;
    let second: Value = app.get(&second.path("")).send().await.unwrap().json().await.unwrap();
    let moment = second["created_at"].as_str().unwrap();
    assert_eq!(found(&app, &[("created_before", moment)]).await, ["first"]);
    assert_eq!(found(&app, &[("created_after", moment)]).await, ["third"]);
    for early in ["0001-01-01T00:00:00Z", "-009999-01-02T01:59:59Z"] {
        assert_eq!(found(&app, &[("created_after", early)]).await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_can_be_combined_and_paginated() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    for n in 0..4 {
        let title = format!("{} {n}", if n % 2 == 0 { "even" } else { "odd" });
        create_session(&app, &title, json!({ "team": "x" })).await;
    }
    let query = [("q", "even"), ("metadata[team]", "x"), ("status", "idle"), ("limit", "1")];
    let first = app.get(&path(&query)).send().await.unwrap();
    let link = first.headers()["link"].to_str().unwrap().to_owned();
    let first: Value = first.json().await.unwrap();
    assert_eq!((&first["data"][0]["title"], &first["has_more"]), (&json!("even 2"), &json!(true)));
    let next = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
    let second: Value = app.get(next).send().await.unwrap().json().await.unwrap();
    assert_eq!(
        (&second["data"][0]["title"], &second["has_more"]),
        (&json!("even 0"), &json!(false))
    );
    assert_eq!(second["prev_cursor"], second["data"][0]["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_filter_is_refused() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let long = "x".repeat(201);
    let six: Vec<(String, String)> =
        (0..6).map(|n| (format!("metadata[{n}]"), "x".to_owned())).collect();
    let six: Vec<(&str, &str)> = six.iter().map(|(name, value)| (&**name, &**value)).collect();
    for query in [
        vec![("status", "asleep")],
        vec![("metadata", "x")],
        vec![("metadata[x", "y")],
        vec![("metadata[x]", "\0")],
        vec![("metadata[\0]", "x")],
        vec![("q", "\0")],
        vec![("q", &*long)],
        vec![("q", "a"), ("q", "b")],
        vec![("created_after", "yesterday")],
        vec![("colour", "red")],
        six,
    ] {
        let response = app.get(&path(&query)).send().await.unwrap();
        assert_eq!(problem(response, 400, "invalid_query").await["status"], 400, "{query:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_another_tenant_are_not_found() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), keys_needed()).await;
    let session = create_session(&app, "secret", json!({ "team": "x" })).await;
    session.ask("Where is the treasure?").await;
    let tenant = app.database.tenant("acme").await;
    let other_client = client_with(Some(&app.database.key(tenant, Scope::Read).await));
    for query in ["", "q=secret", "q=treasure", "metadata[team]=x", "status=idle", "archived=any"] {
        let path = format!("/v1/sessions?{query}");
        let count = async |response: reqwest::Response| {
            let page: Value = response.json().await.unwrap();
            page["data"].as_array().unwrap().len()
        };
        let own = count(app.get(&path).send().await.unwrap()).await;
        let foreign = count(other_client.get(app.url(&path)).send().await.unwrap()).await;
        assert_eq!((own, foreign), (1, 0), "{query}");
    }
}

/// A restored dump is indexed without a search path.
#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_indexed_without_a_search_path() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let changed = create_session(&app, "changed", json!({})).await;
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    sqlx::query("SET search_path = ''").execute(&mut *conn).await.unwrap();
    let update = r#"UPDATE public.sessions SET metadata = '{"customer": "7", "paid": true}'
                    WHERE id = $1"#;
    sqlx::query(update).bind(changed.uuid()).execute(&mut *conn).await.unwrap();
    assert_eq!(found(&app, &[("metadata[customer]", "7")]).await, ["changed"]);
    assert_eq!(found(&app, &[("metadata[paid]", "true")]).await, ["changed"]);
}
