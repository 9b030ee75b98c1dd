//! Pagination of lists in both orders and both directions.

use reqwest::Response;
use serde_json::{Value, json};

use crate::support::{TestApp, calls, problem, replies, says};

/// The target of a link of a response.
fn link(response: &Response, rel: &str) -> Option<String> {
    let links = response.headers().get("link")?.to_str().unwrap();
    let suffix = format!(">; rel=\"{rel}\"");
    let target = links.split(", ").find_map(|link| link.strip_suffix(&suffix))?;
    Some(target.strip_prefix('<').unwrap().to_owned())
}

/// Follows links of one kind from a page. Returns the items of each page and the last path.
async fn follow(app: &TestApp, path: &str, rel: &str) -> (Vec<Vec<Value>>, String) {
    let (mut pages, mut path) = (Vec::new(), path.to_owned());
    loop {
        assert!(pages.len() < 100, "{path}: the links form a cycle");
        let response = app.get(&path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let links = ["next", "prev"].map(|rel| link(&response, rel));
        let page: Value = response.json().await.unwrap();
        // With `before`, the page was read backwards: `next_cursor` belongs to the link `prev`.
        let mut names = ["next_cursor", "prev_cursor"];
        if path.contains("before=") {
            names.reverse();
        }
        let cursors = names.map(|name| page[name].as_str());
        let cursor = |target: &Option<String>| {
            target.as_deref().map(|target| target.rsplit_once('=').unwrap().1.to_owned())
        };
        assert_eq!(links.each_ref().map(cursor), cursors.map(|it| it.map(str::to_owned)));
        assert_eq!(page["has_more"], page["next_cursor"].is_string(), "{path}");
        pages.push(page["data"].as_array().unwrap().clone());
        let [next, prev] = links;
        match if rel == "next" { next } else { prev } {
            Some(target) => path = target,
            None => return (pages, path),
        }
    }
}

/// Creates four sessions. The last one has four runs of three requests each. Returns the paths of
/// all lists.
async fn create_lists(app: &TestApp) -> Vec<String> {
    for _ in 0..3 {
        app.session().await;
    }
    let session = app.session().await;
    let mut run = Value::Null;
    for text in ["One", "Two", "Three", "Four"] {
        run = session.ask(text).await;
    }
    let requests = format!("/runs/{}/requests", run["id"].as_str().unwrap());
    let mut paths =
        ["/messages", "/events", "/runs", &requests].map(|it| session.path(it)).to_vec();
    paths.push("/v1/sessions".to_owned());
    paths
}

fn three_rounds() -> Value {
    replies(&[calls("get_time", json!({})), calls("get_time", json!({})), says("Late.")])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_list_is_read_forwards_and_backwards_in_both_orders() {
    let app = TestApp::start(three_rounds()).await;
    for path in create_lists(&app).await {
        let (whole, _) = follow(&app, &format!("{path}?limit=200"), "next").await;
        let mut whole = whole.concat();
        assert!(whole.len() > 2, "{path}");
        let default_order = if path.ends_with("/sessions") { "desc" } else { "asc" };
        for order in [default_order, if default_order == "asc" { "desc" } else { "asc" }] {
            let first = format!("{path}?limit=2&order={order}");
            let (pages, last) = follow(&app, &first, "next").await;
            assert_eq!(pages.concat(), whole, "{first}");
            assert!(pages.iter().rev().skip(1).all(|page| page.len() == 2), "{first}");
            let (mut back, _) = follow(&app, &last, "prev").await;
            assert!(back.iter().skip(1).rev().skip(1).all(|page| page.len() == 2), "{last}");
            back.reverse();
            assert_eq!(back.concat(), whole, "{last}");
            whole.reverse();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_read_with_before_lead_to_the_beginning() {
    let app = TestApp::start(three_rounds()).await;
    for path in create_lists(&app).await {
        let (whole, _) = follow(&app, &format!("{path}?limit=200"), "next").await;
        let whole = whole.concat();
        let (_, last) = follow(&app, &format!("{path}?limit=1"), "next").await;
        let (_, cursor) = last.rsplit_once('=').unwrap();
        let start = format!("{path}?limit=2&before={cursor}");
        let (mut pages, _) = follow(&app, &start, "prev").await;
        pages.reverse();
        // The cursor is the second last item.
        assert_eq!(pages.concat(), whole[..whole.len() - 2], "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_cursors_orders_and_limits_are_refused() {
    let app = TestApp::start(three_rounds()).await;
    for path in create_lists(&app).await {
        for (query, code) in [
            ("after=x", "invalid_cursor"),
            ("before=x", "invalid_cursor"),
            ("before=", "invalid_cursor"),
            ("after=1&before=3", "invalid_query"),
            ("order=up", "invalid_query"),
            ("limit=0", "invalid_query"),
            ("limit=201", "invalid_query"),
        ] {
            let response = app.get(&format!("{path}?{query}")).send().await.unwrap();
            let problem = problem(response, 400, code).await;
            assert_eq!(problem["instance"], path, "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_outside_of_a_list_gets_an_empty_page() {
    let app = TestApp::start(three_rounds()).await;
    let mut paths = create_lists(&app).await;
    paths.pop();
    for path in paths {
        for query in ["after=1000000", "after=-1", "before=-5", "before=1000000&order=desc"] {
            let response = app.get(&format!("{path}?{query}")).send().await.unwrap();
            problem(response, 400, "invalid_cursor").await;
        }
        for query in ["before=1", "after=1&order=desc"] {
            let response = app.get(&format!("{path}?{query}")).send().await.unwrap();
            assert_eq!(
                (response.status().as_u16(), link(&response, "prev")),
                (200, None),
                "{path}"
            );
            let empty = json!({ "data": [], "has_more": false });
            let mut page: Value = response.json().await.unwrap();
            // Pages of messages have them.
            for member in ["last_seq", "unplaced_events"] {
                page.as_object_mut().unwrap().remove(member);
            }
            assert_eq!(page, empty, "{path} {query}");
        }
    }
}
