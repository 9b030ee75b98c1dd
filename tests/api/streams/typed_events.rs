//! Lists of events, filtered by type.

use serde_json::{Value, json};

use crate::support::{
    Session, TestApp, assert_refused, calls, fill_with_events, problem, refusal, replies, says,
};

/// Maximum number of events that a page examines.
const EXAMINED: i64 = 5000;

/// Returns all pages of a list: their items and `has_more`.
async fn pages(session: &Session<'_>, query: &str) -> Vec<(Vec<Value>, bool)> {
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        assert!(pages.len() < 100, "{query}: there are too many pages");
        let path = session.path(&format!("/events?{query}{cursor}"));
        let response = session.app.get(&path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let page: Value = response.json().await.unwrap();
        let has_more = page["has_more"].as_bool().unwrap();
        pages.push((page["data"].as_array().unwrap().clone(), has_more));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&after={next}"),
            None => return pages,
        }
    }
}

fn of_types(events: &[Value], types: &[&str]) -> Vec<Value> {
    let is_of = |event: &&Value| types.iter().any(|kind| event["type"] == *kind);
    events.iter().filter(is_of).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn filtered_pages_are_full() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("Noon.")])).await;
    let session = app.session().await;
    for text in ["One", "Two", "Three"] {
        session.ask(text).await;
    }
    let all = session.events().await;
    for (types, query) in [
        (&["user.message"][..], "types=user.message"),
        (&["user.message", "session.status_idle"], "types=user.message,session.status_idle"),
        (&["user.message", "session.status_idle"], "types=user.message&types=session.status_idle"),
        (&["agent.tool_use", "user.message"], "types=agent.tool_use&types=,user.message"),
        (&["session.error"], "types=session.error"),
    ] {
        let expected = of_types(&all, types);
        for (order, limit) in [("asc", 2), ("desc", 2), ("asc", 1), ("desc", 200)] {
            let found = pages(&session, &format!("{query}&order={order}&limit={limit}")).await;
            let full = expected.len().div_ceil(limit).max(1);
            assert_eq!(found.len(), full, "{query}");
            let mut data: Vec<Value> = found.into_iter().flat_map(|(data, _)| data).collect();
            if order == "desc" {
                data.reverse();
            }
            assert_eq!(data, expected, "{query} {order}");
        }
    }
    // An empty list of types means all types.
    assert_eq!(pages(&session, "types=&limit=200").await, [(all, false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_event_type_is_refused_by_name() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    for (query, odd) in [
        ("types=unheard.of", "unheard.of"),
        ("types=user.message,event_delta", "event_delta"),
        ("types=user.message&types=*", "*"),
    ] {
        let path = session.path(&format!("/events?{query}"));
        assert_refused(&session, app.get(&path), refusal(400, "invalid_query")).await;
        let refused = problem(app.get(&path).send().await.unwrap(), 400, "invalid_query").await;
        let detail =
            format!("the query is not valid: types names {odd:?}, which is not an event type");
        assert_eq!(refused["detail"], detail);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_examines_a_limited_number_of_events_and_returns_a_cursor() {
    let app = TestApp::start(json!({})).await;
    let session = app.session().await;
    fill_with_events(&app.database, &session.id, 2 * EXAMINED + 2).await;
    let pool = app.database.pool(1);
    for rare in [1, EXAMINED + 1, 2 * EXAMINED + 2] {
        let update = r#"UPDATE events SET type = 'user.interrupt', body = '{"type":"user.interrupt"}'
             WHERE seq = $1"#;
        sqlx::query(update).bind(rare).execute(&pool).await.unwrap();
    }
    let seqs = |pages: Vec<(Vec<Value>, bool)>| -> Vec<(Vec<i64>, bool)> {
        let of =
            |data: Vec<Value>| data.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
        pages.into_iter().map(|(data, has_more)| (of(data), has_more)).collect()
    };
    let rare = [1, EXAMINED + 1, 2 * EXAMINED + 2];
    let up = seqs(pages(&session, "types=user.interrupt").await);
    let expected = [(vec![rare[0]], true), (vec![rare[1]], true), (vec![rare[2]], false)];
    assert_eq!(up, expected);
    let down = seqs(pages(&session, "types=user.interrupt&order=desc").await);
    let expected = [(vec![rare[2]], true), (vec![rare[1]], true), (vec![rare[0]], false)];
    assert_eq!(down, expected);
    // An empty page has cursors in both directions.
    let none = seqs(pages(&session, "types=session.error").await);
    assert_eq!(none, [(vec![], true), (vec![], true), (vec![], false)]);
    let path = session.path(&format!("/events?types=user.interrupt&after={}", EXAMINED + 1));
    let empty: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    let far = (2 * EXAMINED + 1).to_string();
    let expected = json!({ "data": [], "has_more": true, "next_cursor": far, "prev_cursor": far });
    assert_eq!(empty, expected);
    let back = session.path(&format!("/events?types=user.interrupt&before={far}"));
    let back: Value = app.get(&back).send().await.unwrap().json().await.unwrap();
    assert_eq!((&back["data"][0]["seq"], &back["has_more"]), (&json!(EXAMINED + 1), &json!(true)));
    // The inserted events are not valid, so the invariants are not checked.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_of_a_stream_can_be_given_several_times() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Hello" })).await;
    session.settled(&run).await;
    let all = session.events().await;
    let wanted = of_types(&all, &["user.message", "session.status_idle"]);
    // The stream of a run ends even if its last event is filtered out, and resumes after an event
    // of any type.
    for (last, expected) in [(0, &wanted[..]), (1, &wanted[1..]), (3, &wanted[1..])] {
        let path = session.run_stream(&run);
        let path = format!("{path}?types=user.message&types=session.status_idle");
        let lines = app.get(&path).header("accept", "application/jsonl");
        let lines = lines.header("last-event-id", last.to_string()).send().await.unwrap();
        let lines = lines.text().await.unwrap();
        let lines: Vec<Value> = lines
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines, expected, "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_lists_all_event_types() {
    let document = serde_json::to_value(twostep::http::document()).unwrap();
    let parameters = &document["paths"]["/v1/sessions/{session_id}/events"]["get"]["parameters"];
    let types = parameters.as_array().unwrap().iter().find(|it| it["name"] == "types").unwrap();
    let listed: Vec<&str> = types["schema"]["items"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind.as_str().unwrap())
        .collect();
    let events = &document["components"]["schemas"]["Event"]["discriminator"]["mapping"];
    let mut events: Vec<&str> = events.as_object().unwrap().keys().map(String::as_str).collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    events.sort_unstable();
    assert_eq!(sorted, events);
}
