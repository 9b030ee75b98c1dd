//! What a parent finds of its sub-agents after its worker is gone.

use serde_json::{Value, json};

use super::{children, counts, has_children, kinds, results, session, told};
use crate::faults::takeover::{hangs_once, lose_worker};
use crate::support::{Session, TestApp, asked, says};

fn hangs() -> Value {
    json!({ "content": [], "hang_after": 0 })
}

/// Each event of the sub-agents was told once, in its order, and the parent has said one thing.
async fn assert_told_once(session: &Session<'_>) {
    let events = session.events().await;
    for call in ["toolu_1", "toolu_2"] {
        let told = told(&events, call);
        let numbers: Vec<i64> = told.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
        let mut once = numbers.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(numbers, once, "{call}");
        assert_eq!(kinds(&told).last(), Some(&"session.status_idle"));
    }
    let created = events.iter().filter(|event| event["type"] == "session.thread_created");
    let answers = events.iter().filter(|event| event["type"] == "agent.message");
    assert_eq!((created.count(), answers.count()), (2, 1));
    assert_eq!(children(session).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_is_taken_over_finds_its_sub_agents_again() {
    let app = TestApp::start(counts(&hangs_once(says("Three.")), &hangs_once(says("Four.")))).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    asked(&app, 3).await;
    lose_worker(&app, &run, 1).await;
    for child in has_children(&session, 2).await {
        let page: Value = app.get(&child.path("/runs")).send().await.unwrap().json().await.unwrap();
        lose_worker(&app, &page["data"][0], 1).await;
    }
    let run = session.settled(&run).await;
    assert_eq!(run["output_text"], "Seven birds.");
    assert_eq!(results(&session).await, [json!([null, "Three."]), json!([null, "Four."])]);
    assert_told_once(&session).await;
    // The parent asked twice; each of the others once in vain and once for good.
    assert_eq!(app.upstream().len(), 6);
}

/// Waits until a run was taken over and has got further since.
async fn is_well(app: &TestApp, run: &Value) {
    let id = run["id"].as_str().unwrap().trim_start_matches("run_").to_owned();
    let pool = app.database.pool(1);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    let takeovers = "SELECT takeovers FROM runs WHERE id = $1::uuid";
    while sqlx::query_scalar::<_, i32>(takeovers).bind(&id).fetch_one(&pool).await.unwrap() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "it gets no further");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_is_not_given_up_while_its_sub_agents_are_well() {
    let app = TestApp::start(counts(&says("Three."), &hangs_once(says("Four.")))).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    session.reached(&run, "agent.tool_result").await;
    let [_, geese] = has_children(&session, 2).await.try_into().ok().unwrap();
    for _ in 0..3 {
        // As many takeovers as a run survives, each time.
        lose_worker(&app, &run, 2).await;
        is_well(&app, &run).await;
    }
    let page: Value = app.get(&geese.path("/runs")).send().await.unwrap().json().await.unwrap();
    lose_worker(&app, &page["data"][0], 1).await;
    assert_eq!(session.settled(&run).await["output_text"], "Seven birds.");
    assert_told_once(&session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_restarts_goes_on_with_parents_and_sub_agents() {
    let app = TestApp::start(counts(&says("Three."), &hangs())).await;
    let before = session(&app).await;
    let run = before.post(json!({ "content": "Count all birds" })).await;
    let id = before.id.clone();
    // One of them has ended, and its parent has told of it.
    before.reached(&run, "agent.tool_result").await;
    let app = app.restarted(counts(&says("Never asked."), &says("Four."))).await;
    let session = app.existing_session(&id);
    assert_eq!(session.settled(&run).await["output_text"], "Seven birds.");
    assert_eq!(results(&session).await, [json!([null, "Three."]), json!([null, "Four."])]);
    assert_told_once(&session).await;
    assert_eq!(app.upstream().len(), 2, "the one that had ended was not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_that_ended_while_nobody_held_its_parent_is_not_repeated() {
    let app = TestApp::start(counts(&hangs_once(says("Three.")), &says("Four."))).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    let [ducks, geese] = has_children(&session, 2).await.try_into().ok().unwrap();
    let of = async |child: &Session<'_>| -> Value {
        let page: Value = app.get(&child.path("/runs")).send().await.unwrap().json().await.unwrap();
        page["data"][0].clone()
    };
    geese.settled(&of(&geese).await).await;
    asked(&app, 3).await;
    lose_worker(&app, &run, 1).await;
    lose_worker(&app, &of(&ducks).await, 1).await;
    assert_eq!(session.settled(&run).await["output_text"], "Seven birds.");
    assert_told_once(&session).await;
    let of_geese = (0..app.upstream().len())
        .filter(|index| app.upstream().text(*index).contains("count the geese"))
        .filter(|index| !app.upstream().text(*index).contains("all birds"));
    assert_eq!(of_geese.count(), 1);
}
