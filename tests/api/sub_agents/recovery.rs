//! Recovery of parents and sub-agents after the loss of a worker.

use serde_json::{Value, json};

use super::{
    kinds, relayed_events, results, script_of_two, session, sub_agent_sessions, wait_for_sub_agents,
};
use crate::faults::takeover::{hangs_once, lose_worker};
use crate::support::{Session, TestApp, asked, says};

fn hangs() -> Value {
    json!({ "content": [], "hang_after": 0 })
}

/// Asserts that each event of the sub-agents was relayed once and in order, and that the parent has
/// one message.
async fn assert_relayed_once(session: &Session<'_>) {
    let events = session.events().await;
    for call in ["toolu_1", "toolu_2"] {
        let relayed = relayed_events(&events, call);
        let numbers: Vec<i64> =
            relayed.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
        let mut unique = numbers.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(numbers, unique, "{call}");
        assert_eq!(kinds(&relayed).last(), Some(&"session.status_idle"));
    }
    let created = events.iter().filter(|event| event["type"] == "session.thread_created");
    let answers = events.iter().filter(|event| event["type"] == "agent.message");
    assert_eq!((created.count(), answers.count()), (2, 1));
    assert_eq!(sub_agent_sessions(session).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_is_taken_over_keeps_its_sub_agents() {
    let app =
        TestApp::start(script_of_two(&hangs_once(says("Three.")), &hangs_once(says("Four."))))
            .await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    asked(&app, 3).await;
    lose_worker(&app, &run, 1).await;
    for sub_agent in wait_for_sub_agents(&session, 2).await {
        let page: Value =
            app.get(&sub_agent.path("/runs")).send().await.unwrap().json().await.unwrap();
        lose_worker(&app, &page["data"][0], 1).await;
    }
    let run = session.settled(&run).await;
    assert_eq!(run["output_text"], "Seven birds.");
    assert_eq!(results(&session).await, [json!([null, "Three."]), json!([null, "Four."])]);
    assert_relayed_once(&session).await;
    // Two requests of the parent, and two of each sub-agent, the first of which failed.
    assert_eq!(app.upstream().len(), 6);
}

/// Waits until a run was taken over and has made progress, which resets its count of takeovers.
async fn wait_for_progress(app: &TestApp, run: &Value) {
    let id = run["id"].as_str().unwrap().trim_start_matches("run_").to_owned();
    let pool = app.database.pool(1);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    let takeovers = "SELECT takeovers FROM runs WHERE id = $1::uuid";
    while sqlx::query_scalar::<_, i32>(takeovers).bind(&id).fetch_one(&pool).await.unwrap() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the run makes no progress");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn takeovers_of_a_parent_do_not_fail_it_while_its_sub_agents_make_progress() {
    let app = TestApp::start(script_of_two(&says("Three."), &hangs_once(says("Four.")))).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    session.reached(&run, "agent.tool_result").await;
    let [_, geese] = wait_for_sub_agents(&session, 2).await.try_into().ok().unwrap();
    for _ in 0..3 {
        // The third death makes the run a suspect.
        lose_worker(&app, &run, 2).await;
        wait_for_progress(&app, &run).await;
    }
    let page: Value = app.get(&geese.path("/runs")).send().await.unwrap().json().await.unwrap();
    lose_worker(&app, &page["data"][0], 1).await;
    assert_eq!(session.settled(&run).await["output_text"], "Seven birds.");
    assert_relayed_once(&session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_service_resumes_parents_and_sub_agents() {
    let app = TestApp::start(script_of_two(&says("Three."), &hangs())).await;
    let before = session(&app).await;
    let run = before.post(json!({ "content": "Count all birds" })).await;
    let id = before.id.clone();
    // The first sub-agent has settled, and its parent has recorded the result.
    before.reached(&run, "agent.tool_result").await;
    let app = app.restarted(script_of_two(&says("Never sent."), &says("Four."))).await;
    let session = app.existing_session(&id);
    assert_eq!(session.settled(&run).await["output_text"], "Seven birds.");
    assert_eq!(results(&session).await, [json!([null, "Three."]), json!([null, "Four."])]);
    assert_relayed_once(&session).await;
    assert_eq!(app.upstream().len(), 2, "the settled sub-agent must not send requests again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_that_settled_while_its_parent_had_no_worker_is_not_repeated() {
    let app = TestApp::start(script_of_two(&hangs_once(says("Three.")), &says("Four."))).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    let [ducks, geese] = wait_for_sub_agents(&session, 2).await.try_into().ok().unwrap();
    let run_of = async |sub_agent: &Session<'_>| -> Value {
        let page: Value =
            app.get(&sub_agent.path("/runs")).send().await.unwrap().json().await.unwrap();
        page["data"][0].clone()
    };
    geese.settled(&run_of(&geese).await).await;
    asked(&app, 3).await;
    lose_worker(&app, &run, 1).await;
    lose_worker(&app, &run_of(&ducks).await, 1).await;
    assert_eq!(session.settled(&run).await["output_text"], "Seven birds.");
    assert_relayed_once(&session).await;
    let requests = (0..app.upstream().len())
        .filter(|index| app.upstream().text(*index).contains("count the geese"))
        .filter(|index| !app.upstream().text(*index).contains("all birds"));
    assert_eq!(requests.count(), 1);
}
