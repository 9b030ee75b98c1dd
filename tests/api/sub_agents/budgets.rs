//! What sub-agents may use: a share of what their parent has left.

use serde_json::{Value, json};
use twostep::domain::price::Price;

use super::{children, counts, results};
use crate::support::{Setup, TestApp, calls, calls_as, says};

fn used(mut reply: Value, tokens: i64) -> Value {
    reply["usage"] = json!({ "input_tokens": tokens, "output_tokens": 0 });
    reply
}

fn birds(of_each: i64) -> Value {
    let mut script = counts(&used(says("Three."), of_each), &used(says("Four."), of_each));
    let parent = script["conversations"][0]["replies"].as_array_mut().unwrap();
    for reply in parent {
        *reply = used(reply.clone(), 100);
    }
    script
}

fn settings(more: &Value) -> Value {
    let mut settings = json!({ "tools": ["Task", "read_file"] });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_two_gets_half_of_what_the_run_has_left() {
    let app = TestApp::start(birds(10)).await;
    let limited = settings(&json!({ "limits": { "tokens": 1100, "seconds": 600 } }));
    let session = app.session_with(limited).await;
    assert_eq!(session.ask("Count all birds").await["status"], "completed");
    for child in children(&session).await {
        let limits = &child.read().await["limits"];
        assert_eq!(limits["tokens"], 500);
        assert!(limits["seconds"].as_i64().unwrap() > 500);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sub_agents_used_counts_against_the_limit_of_their_parent() {
    let app = TestApp::start(birds(500)).await;
    let limited = settings(&json!({ "limits": { "tokens": 1100 } }));
    let session = app.session_with(limited).await;
    let run = session.ask("Count all birds").await;
    assert_eq!((&run["limited"], &run["limited_by"]), (&json!(true), &json!("tokens")));
    assert_eq!(app.upstream().body(3)["tool_choice"], json!({ "type": "none" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_its_sub_agents_have_one_budget() {
    let mut script = birds(4000);
    let again = calls_as(&[
        ("toolu_3", "Task", super::task("count the ducks")),
        ("toolu_4", "Task", super::task("count the geese")),
    ]);
    let replies = [used(again, 100), used(says("Seven again."), 100)];
    let again = json!({ "when": "once more", "replies": replies });
    script["conversations"].as_array_mut().unwrap().insert(0, again);
    let app = TestApp::start(script).await;
    let budget = settings(&json!({ "budget": { "tokens": 100_000 } }));
    let session = app.session_with(budget).await;
    assert_eq!(session.ask("Count all birds").await["status"], "completed");
    for child in children(&session).await {
        assert_eq!(child.read().await["budget"]["tokens"], (100_000 - 100) / 2);
    }
    // 100 + 2 * 4000 + 100 are spent: a second run has less to give.
    session.ask("Count them once more").await;
    let second = &children(&session).await[2];
    assert_eq!(second.read().await["budget"]["tokens"], (100_000 - 8_200 - 100) / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_that_would_take_more_than_its_part_of_the_budget_ends() {
    let app = TestApp::start(birds(10)).await;
    let session = app.session_with(settings(&json!({ "budget": { "tokens": 6000 } }))).await;
    let run = session.ask("Count all birds").await;
    assert_eq!(run["output_text"], "Seven birds.", "{run}");
    for result in results(&session).await {
        let text = result[1].as_str().unwrap();
        assert!(text.contains("The sub-agent failed: ") && text.contains("budget"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_is_counted_at_the_price_of_the_model_that_did_the_work() {
    let script = super::script(&[
        (
            "all birds",
            &[
                used(
                    calls(
                        "Task",
                        json!({
                    "description": "d", "prompt": "count the ducks", "subagent_type": "dear" }),
                    ),
                    100,
                ),
                used(says("Three birds."), 100),
            ],
        ),
        ("ducks", &[used(says("Three."), 100)]),
    ]);
    let price = |input| Price { input, output: 1, ..Price::default() };
    let prices = [
        ("simulator".to_owned(), price(1_000_000)),
        ("simulator-dear".to_owned(), price(9_000_000)),
    ];
    let app =
        TestApp::start_with(script, Setup { prices: prices.into(), ..Setup::default() }).await;
    let dear = json!({ "name": "dear", "description": "d", "model": "simulator-dear" });
    let body = settings(&json!({ "sub_agents": [dear], "limits": { "cost": 1000 } }));
    let session = app.session_with(body).await;
    let run = session.ask("Count all birds").await;
    // 100 for the first request and 900 for the sub-agent: the limit is reached.
    assert_eq!((&run["limited_by"], &run["cost"]), (&json!("cost"), &json!(200)));
    let run = session.run(&run).await;
    assert_eq!(run["sub_agents"][0]["cost"], 900);
}
