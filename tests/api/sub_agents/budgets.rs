//! Limits and budgets of sub-agents: a share of the remaining amounts of their parent.

use serde_json::{Value, json};
use twostep::domain::price::Price;

use super::{results, script_of_two, sub_agent_sessions};
use crate::support::{Setup, TestApp, calls, calls_as, says};

/// The reply with this usage.
fn with_usage(mut reply: Value, tokens: i64) -> Value {
    reply["usage"] = json!({ "input_tokens": tokens, "output_tokens": 0 });
    reply
}

/// A script whose parent uses 100 tokens per request, and whose sub-agents use this number each.
fn script_with_usage(tokens: i64) -> Value {
    let mut script =
        script_of_two(&with_usage(says("Three."), tokens), &with_usage(says("Four."), tokens));
    let parent = script["conversations"][0]["replies"].as_array_mut().unwrap();
    for reply in parent {
        *reply = with_usage(reply.clone(), 100);
    }
    script
}

fn settings(more: &Value) -> Value {
    let mut settings = json!({ "tools": ["Task", "read_file"] });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_two_sub_agents_gets_half_of_the_remaining_limits_of_the_run() {
    let app = TestApp::start(script_with_usage(10)).await;
    let limited = settings(&json!({ "limits": { "tokens": 1100, "seconds": 600 } }));
    let session = app.session_with(limited).await;
    assert_eq!(session.ask("Count all birds").await["status"], "completed");
    for sub_agent in sub_agent_sessions(&session).await {
        let limits = &sub_agent.read().await["limits"];
        assert_eq!(limits["tokens"], 500);
        assert!(limits["seconds"].as_i64().unwrap() > 500);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_sub_agents_counts_against_the_limits_of_their_parent() {
    let app = TestApp::start(script_with_usage(500)).await;
    let limited = settings(&json!({ "limits": { "tokens": 1100 } }));
    let session = app.session_with(limited).await;
    let run = session.ask("Count all birds").await;
    assert_eq!((&run["limited"], &run["limited_by"]), (&json!(true), &json!("tokens")));
    assert_eq!(app.upstream().body(3)["tool_choice"], json!({ "type": "none" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_its_sub_agents_share_one_budget() {
    let mut script = script_with_usage(4000);
    let again = calls_as(&[
        ("toolu_3", "Task", super::task_input("count the ducks")),
        ("toolu_4", "Task", super::task_input("count the geese")),
    ]);
    let replies = [with_usage(again, 100), with_usage(says("Seven again."), 100)];
    let again = json!({ "when": "once more", "replies": replies });
    script["conversations"].as_array_mut().unwrap().insert(0, again);
    let app = TestApp::start(script).await;
    let budget = settings(&json!({ "budget": { "tokens": 100_000 } }));
    let session = app.session_with(budget).await;
    assert_eq!(session.ask("Count all birds").await["status"], "completed");
    for sub_agent in sub_agent_sessions(&session).await {
        assert_eq!(sub_agent.read().await["budget"]["tokens"], (100_000 - 100) / 2);
    }
    // The first run used 100 + 2 * 4000 + 100 tokens, so the shares of the second run are smaller.
    session.ask("Count them once more").await;
    let second = &sub_agent_sessions(&session).await[2];
    assert_eq!(second.read().await["budget"]["tokens"], (100_000 - 8_200 - 100) / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_fails_when_its_share_of_the_budget_is_exceeded() {
    let app = TestApp::start(script_with_usage(10)).await;
    let session = app.session_with(settings(&json!({ "budget": { "tokens": 6000 } }))).await;
    let run = session.ask("Count all birds").await;
    assert_eq!(run["output_text"], "Seven birds.", "{run}");
    for result in results(&session).await {
        let text = result[1].as_str().unwrap();
        assert!(text.contains("The sub-agent failed: ") && text.contains("budget"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_is_computed_with_the_price_of_the_model_of_each_sub_agent() {
    let input =
        json!({ "description": "d", "prompt": "count the ducks", "subagent_type": "expensive" });
    let parent = [with_usage(calls("Task", input), 100), with_usage(says("Three birds."), 100)];
    let script =
        super::script(&[("all birds", &parent), ("ducks", &[with_usage(says("Three."), 100)])]);
    let price = |input| Price { input, output: 1, ..Price::default() };
    let prices = [
        ("simulator".to_owned(), price(1_000_000)),
        ("simulator-expensive".to_owned(), price(9_000_000)),
    ];
    let app =
        TestApp::start_with(script, Setup { prices: prices.into(), ..Setup::default() }).await;
    let expensive =
        json!({ "name": "expensive", "description": "d", "model": "simulator-expensive" });
    let body = settings(&json!({ "sub_agents": [expensive], "limits": { "cost": 1000 } }));
    let session = app.session_with(body).await;
    let run = session.ask("Count all birds").await;
    // The first request costs 100 and the sub-agent 900, so the limit of 1000 is reached.
    assert_eq!((&run["limited_by"], &run["cost"]), (&json!("cost"), &json!(200)));
    let run = session.run(&run).await;
    assert_eq!(run["sub_agents"][0]["cost"], 900);
}
