//! Sub-agents that fail, wait, or are cancelled or deleted.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    kinds, relayed_events, results, script, script_of_two, session, sub_agent_sessions, task_calls,
    task_input, wait_for_sub_agents,
};
use crate::support::{Session, TestApp, asked, asks, calls, calls_as, pending, problem, says};

fn hangs() -> Value {
    json!({ "content": [], "hang_after": 0 })
}

/// The first run of a sub-agent.
async fn run_of(sub_agent: &Session<'_>) -> Value {
    let page: Value =
        sub_agent.app.get(&sub_agent.path("/runs")).send().await.unwrap().json().await.unwrap();
    page["data"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_parent_cancels_its_sub_agents() {
    let mut script = script_of_two(&says("Three."), &hangs());
    script["conversations"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "replies": [says("Still here.")] }));
    let app = TestApp::start(script).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    session.reached(&run, "agent.tool_result").await;
    let [_, geese] = wait_for_sub_agents(&session, 2).await.try_into().ok().unwrap();
    session.cancel(&run).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    assert_eq!(geese.settled(&run_of(&geese).await).await["status"], "cancelled");
    let results = results(&session).await;
    assert_eq!(results[0], json!([null, "Three."]));
    assert!(results[1][1].as_str().unwrap().starts_with("Cancelled: the sub-agent"), "{results:?}");
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_that_waits_for_a_slot_is_cancelled_with_its_parent() {
    let script = script(&[
        ("block", &[hangs()]),
        ("all birds", &[task_calls(&["count the ducks"]), says("Never sent.")]),
        ("ducks", &[hangs()]),
    ]);
    let setup = crate::support::Setup { slots: Some(1), ..Default::default() };
    let app = TestApp::start_with(script, setup).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    asked(&app, 1).await;
    let blocker = app.session().await;
    let block = blocker.post(json!({ "content": "block" })).await;
    // Either run may hold the only slot; both are cancelled.
    session.cancel(&run).await;
    blocker.cancel(&block).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    assert_eq!(blocker.settled(&block).await["status"], "cancelled");
    for sub_agent in sub_agent_sessions(&session).await {
        assert_eq!(sub_agent.settled(&run_of(&sub_agent).await).await["status"], "cancelled");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_sub_agent_is_an_error_for_its_parent() {
    let app = TestApp::start(script_of_two(&says("Three."), &hangs())).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    session.reached(&run, "agent.tool_result").await;
    let [_, geese] = wait_for_sub_agents(&session, 2).await.try_into().ok().unwrap();
    geese.cancel(&run_of(&geese).await).await;
    assert_eq!(session.settled(&run).await["output_text"], "Seven birds.");
    let text = "<tool_use_error>The sub-agent was cancelled before it finished. Its effects up to \
        then remain.</tool_use_error>";
    assert_eq!(results(&session).await[1], json!([true, text]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sub_agent_is_an_error_and_its_parent_continues() {
    let fails = json!({ "content": [], "status": 400 });
    let app = TestApp::start(script_of_two(&fails, &says("Four."))).await;
    let session = session(&app).await;
    assert_eq!(session.ask("Count all birds").await["output_text"], "Seven birds.");
    let results = results(&session).await;
    assert!(results[0][1].as_str().unwrap().contains("The sub-agent failed: "), "{results:?}");
    assert_eq!(results[1], json!([null, "Four."]));
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_relays_that_its_sub_agent_waits_for_an_approval() {
    let rings = calls_as(&[("toolu_ring", "ring", json!({ "line": "ding" }))]);
    let script = script(&[
        ("all birds", &[task_calls(&["wake the ducks"]), says("They are awake.")]),
        ("ducks", &[rings, says("I rang.")]),
    ]);
    let app = TestApp::start_with(script, asks()).await;
    let session = app.session_with(json!({ "tools": ["Task", "ring"] })).await;
    let run = session.post(json!({ "content": "Wake all birds" })).await;
    let [sub_agent] = wait_for_sub_agents(&session, 1).await.try_into().ok().unwrap();
    let waiting = sub_agent.waits_for(&run_of(&sub_agent).await, &["toolu_ring"]).await;
    assert_eq!(pending(&waiting), ["toolu_ring"]);
    assert_eq!(session.run(&run).await["status"], "running");
    sub_agent.allow("toolu_ring", json!({})).await;
    assert_eq!(session.settled(&run).await["output_text"], "They are awake.");
    let events = session.events().await;
    let idle: Vec<&Value> = relayed_events(&events, "toolu_1")
        .into_iter()
        .filter(|event| event["type"] == "session.status_idle")
        .map(|event| &event["stop_reason"]["type"])
        .collect();
    assert_eq!(idle, [&json!("requires_action"), &json!("end_turn")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_session_deletes_the_sessions_of_its_sub_agents() {
    let app = TestApp::start(script_of_two(&says("Three."), &hangs())).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    session.reached(&run, "agent.tool_result").await;
    let sub_agents = wait_for_sub_agents(&session, 2).await;
    let deleted = app.client.delete(app.url(&session.path(""))).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    for deleted in sub_agents.iter().chain([&session]) {
        let response = app.get(&deleted.path("")).send().await.unwrap();
        problem(response, 404, "session_not_found").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_sub_agent_is_an_error_for_its_parent() {
    let app = TestApp::start(script_of_two(&says("Three."), &hangs())).await;
    let session = session(&app).await;
    let run = session.post(json!({ "content": "Count all birds" })).await;
    session.reached(&run, "agent.tool_result").await;
    let [_, geese] = wait_for_sub_agents(&session, 2).await.try_into().ok().unwrap();
    let deleted = app.client.delete(app.url(&geese.path(""))).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    assert_eq!(session.settled(&run).await["output_text"], "Seven birds.");
    let results = results(&session).await;
    let text = results[1][1].as_str().unwrap();
    assert!(text.contains("was deleted") || text.contains("was cancelled"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_call_of_task_starts_no_sub_agent() {
    let invalid_calls = calls_as(&[
        ("toolu_1", "Task", json!({ "description": "a", "prompt": " " })),
        ("toolu_2", "Task", json!({ "description": "a", "prompt": "b", "subagent_type": "owl" })),
        ("toolu_3", "Task", json!({ "prompt": "b" })),
    ]);
    let app =
        TestApp::start(script(&[("all birds", &[invalid_calls, says("It cannot be done.")])]))
            .await;
    let session = session(&app).await;
    assert_eq!(session.ask("Count all birds").await["output_text"], "It cannot be done.");
    let wrapped = |text: &str| json!([true, format!("<tool_use_error>{text}</tool_use_error>")]);
    let results = results(&session).await;
    assert_eq!(results[0], wrapped("the prompt is blank"));
    assert_eq!(results[1], wrapped("there is no sub-agent \"owl\"; there are: general"));
    assert!(results[2][1].as_str().unwrap().contains("\"description\" is a required property"));
    assert!(sub_agent_sessions(&session).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_cannot_start_sub_agents() {
    let script = script(&[
        ("all birds", &[task_calls(&["count the ducks"]), says("None.")]),
        ("ducks", &[calls("Task", task_input("count the ducks again")), says("I could not.")]),
    ]);
    let app = TestApp::start(script).await;
    let session = session(&app).await;
    assert_eq!(session.ask("Count all birds").await["output_text"], "None.");
    let [sub_agent] = sub_agent_sessions(&session).await.try_into().ok().unwrap();
    assert_eq!(results(&sub_agent).await[0][0], true);
    assert!(sub_agent_sessions(&sub_agent).await.is_empty());
    let events = session.events().await;
    assert!(kinds(&relayed_events(&events, "toolu_1")).contains(&"agent.tool_result"));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_sub_agents_than_slots_all_complete() {
    let prompts: Vec<String> = (1..=12).map(|n| format!("count pond {n}.")).collect();
    let prompts: Vec<&str> = prompts.iter().map(String::as_str).collect();
    let script = script(&[
        ("all birds", &[task_calls(&prompts), says("Many birds.")]),
        ("count pond", &[says("One.")]),
    ]);
    let setup = crate::support::Setup { slots: Some(1), ..Default::default() };
    let app = TestApp::start_with(script, setup).await;
    let sessions = [session(&app).await, session(&app).await, session(&app).await];
    let mut runs = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let content = format!("Count all birds of lake {number}");
        runs.push(session.post(json!({ "content": content })).await);
    }
    for (session, run) in sessions.iter().zip(&runs) {
        let settled = tokio::time::timeout(Duration::from_mins(1), session.settled(run));
        assert_eq!(settled.await.unwrap()["output_text"], "Many birds.");
        assert_eq!(results(session).await, vec![json!([null, "One."]); 12]);
    }
}
