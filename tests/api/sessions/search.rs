//! Sessions that are looked for: by where they stand, by metadata, by words, by age.

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;

use crate::support::{
    Session, TestApp, asks, calls_as, client_with, keys_needed, problem, replies, says,
};

/// The list with this query.
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

/// The titles of the sessions that a query finds, in its order.
async fn found(app: &TestApp, query: &[(&str, &str)]) -> Vec<String> {
    let response = app.get(&path(query)).send().await.unwrap();
    assert_eq!(response.status(), 200, "{query:?}");
    let page: Value = response.json().await.unwrap();
    let title = |session: &Value| session["title"].as_str().unwrap().to_owned();
    page["data"].as_array().unwrap().iter().map(title).collect()
}

async fn titled<'a>(app: &'a TestApp, title: &str, metadata: Value) -> Session<'a> {
    app.session_with(json!({ "title": title, "metadata": metadata })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_by_where_they_stand() {
    let ring = calls_as(&[("toolu_01ring", "ring", json!({ "line": "one" }))]);
    let script = json!({ "conversations": [
        { "when": "hang", "replies": [{ "content": [{ "type": "text", "text": "Well" }],
                                        "hang_after": 4 }] },
        { "when": "Ring", "replies": [ring, says("Rang.")] },
        { "replies": [says("Yes.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, asks()).await;
    let rests = titled(&app, "rests", json!({})).await;
    let runs = titled(&app, "runs", json!({})).await;
    let waits = titled(&app, "waits", json!({})).await;
    rests.ask("Hello").await;
    let hanging = runs.post(json!({ "content": "hang" })).await;
    runs.reached(&hanging, "span.model_request_start").await;
    let ringing = waits.post(json!({ "content": "Ring" })).await;
    waits.waits_for(&ringing, &["toolu_01ring"]).await;
    for (status, expected) in [
        ("running", vec!["runs"]),
        ("requires_action", vec!["waits"]),
        ("idle", vec!["waits", "rests"]),
        ("queued", vec![]),
    ] {
        assert_eq!(found(&app, &[("status", status)]).await, expected, "{status}");
    }
    runs.cancel(&hanging).await;
    runs.settled(&hanging).await;
    waits.allow("toolu_01ring", json!({})).await;
    waits.settled(&ringing).await;
    let all = ["waits", "runs", "rests"];
    assert_eq!(found(&app, &[("status", "idle")]).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_message_waits_for_a_worker_is_found_as_queued() {
    let setup = crate::support::Setup { no_worker: true, ..Default::default() };
    let app = TestApp::start_with(json!({}), setup).await;
    titled(&app, "rests", json!({})).await;
    let session = titled(&app, "queued", json!({})).await;
    let run = session.post(json!({ "content": "Hello" })).await;
    assert_eq!(found(&app, &[("status", "queued")]).await, ["queued"]);
    assert_eq!(found(&app, &[("status", "idle")]).await, ["rests"]);
    session.cancel(&run).await;
    assert_eq!(found(&app, &[("status", "queued")]).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_by_members_of_their_metadata() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let long = "x".repeat(10_000);
    let red =
        titled(&app, "red", json!({ "colour": "red", "n": 1, "a:b": "c", "deep": { "n": 1 } }));
    let red = red.await;
    titled(&app, "green", json!({ "colour": "green", "n": 1.0, "on": true, "long": long })).await;
    // The database has no text for this, and finds nothing of it.
    titled(&app, "odd", json!({ "colour": "red\u{0}", "n": 1 })).await;
    titled(&app, "plain", json!({})).await;
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
async fn sessions_are_found_by_words_of_titles_and_of_what_people_typed() {
    let app = TestApp::start(replies(&[says("An elephant.")])).await;
    let zoo = titled(&app, "At the Zoo", json!({})).await;
    zoo.ask("Which animal is the largest?").await;
    zoo.ask_with(json!({ "content": [{ "type": "text", "text": "Straße,\nnicht" }] })).await;
    let office = titled(&app, "Büro", json!({})).await;
    office.ask("Which printer is the largest? \"Straße\"").await;
    let long = "word ".repeat(2_000);
    titled(&app, "long", json!({})).await.ask(&format!("begins {long} ends")).await;
    for (q, expected) in [
        ("largest", vec!["Büro", "At the Zoo"]),
        ("LARGEST animal", vec!["At the Zoo"]),
        ("straße nicht", vec!["At the Zoo"]),
        ("büro", vec!["Büro"]),
        ("the zoo", vec!["At the Zoo"]),
        // Of one text, not of several.
        ("zoo animal", vec![]),
        // What the model says is not searched.
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
async fn sessions_are_found_by_the_time_of_their_making() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    titled(&app, "first", json!({})).await;
    let second = titled(&app, "second", json!({})).await;
    titled(&app, "third", json!({})).await;
    let second: Value = app.get(&second.path("")).send().await.unwrap().json().await.unwrap();
    let moment = second["created_at"].as_str().unwrap();
    assert_eq!(found(&app, &[("created_before", moment)]).await, ["first"]);
    assert_eq!(found(&app, &[("created_after", moment)]).await, ["third"]);
    for early in ["0001-01-01T00:00:00Z", "-009999-01-02T01:59:59Z"] {
        assert_eq!(found(&app, &[("created_after", early)]).await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_go_together_and_with_pages() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    for n in 0..4 {
        let title = format!("{} {n}", if n % 2 == 0 { "even" } else { "odd" });
        titled(&app, &title, json!({ "team": "x" })).await;
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
async fn a_filter_that_makes_no_sense_is_refused() {
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
async fn nobody_finds_the_sessions_of_another_tenant() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), keys_needed()).await;
    let session = titled(&app, "secret", json!({ "team": "x" })).await;
    session.ask("Where is the treasure?").await;
    let tenant = app.database.tenant("acme").await;
    let stranger = client_with(Some(&app.database.key(tenant, Scope::Read).await));
    for query in ["", "q=secret", "q=treasure", "metadata[team]=x", "status=idle", "archived=any"] {
        let path = format!("/v1/sessions?{query}");
        let count = async |response: reqwest::Response| {
            let page: Value = response.json().await.unwrap();
            page["data"].as_array().unwrap().len()
        };
        let own = count(app.get(&path).send().await.unwrap()).await;
        let foreign = count(stranger.get(app.url(&path)).send().await.unwrap()).await;
        assert_eq!((own, foreign), (1, 0), "{query}");
    }
}

/// So is a dump restored.
#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_indexed_without_a_search_path() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let changed = titled(&app, "changed", json!({})).await;
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    sqlx::query("SET search_path = ''").execute(&mut *conn).await.unwrap();
    let update = r#"UPDATE public.sessions SET metadata = '{"customer": "7", "paid": true}'
                    WHERE id = $1"#;
    sqlx::query(update).bind(changed.uuid()).execute(&mut *conn).await.unwrap();
    assert_eq!(found(&app, &[("metadata[customer]", "7")]).await, ["changed"]);
    assert_eq!(found(&app, &[("metadata[paid]", "true")]).await, ["changed"]);
}
