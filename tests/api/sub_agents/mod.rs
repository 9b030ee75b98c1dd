//! Sub-agents: calls that start runs in sessions of their own, and wait for them.

mod budgets;
mod failures;
mod recovery;
mod settings;

use serde_json::{Value, json};

use crate::support::{Session, Setup, TestApp, calls, calls_as, says};

/// A session whose model may start sub-agents.
async fn session(app: &TestApp) -> Session<'_> {
    app.session_with(json!({ "tools": ["Task", "read_file", "write_file"] })).await
}

fn task(prompt: &str) -> Value {
    json!({ "description": format!("About {prompt}"), "prompt": prompt })
}

/// A call of the tool for each of these prompts, in one reply, with ids `toolu_1` and so on.
fn delegates(prompts: &[&str]) -> Value {
    let ids: Vec<String> = (1..=prompts.len()).map(|n| format!("toolu_{n}")).collect();
    let calls: Vec<_> =
        ids.iter().zip(prompts).map(|(id, prompt)| (id.as_str(), "Task", task(prompt))).collect();
    calls_as(&calls)
}

/// What the model says to each text, by a part of it.
fn script(conversations: &[(&str, &[Value])]) -> Value {
    let conversations: Vec<Value> = conversations
        .iter()
        .map(|(when, replies)| json!({ "when": when, "replies": replies }))
        .collect();
    json!({ "conversations": conversations, "otherwise": "refuse" })
}

/// The script of a parent that has ducks and geese counted, with these replies to the two.
fn counts(ducks: &Value, geese: &Value) -> Value {
    let parent = [delegates(&["count the ducks", "count the geese"]), says("Seven birds.")];
    script(&[
        ("all birds", &parent),
        ("ducks", std::slice::from_ref(ducks)),
        ("geese", std::slice::from_ref(geese)),
    ])
}

/// The events that a session has of a sub-agent, as they are there.
fn told<'a>(events: &'a [Value], tool_use_id: &str) -> Vec<&'a Value> {
    let of_call = |event: &&Value| {
        event["type"] == "session.thread_event" && event["tool_use_id"] == tool_use_id
    };
    events.iter().filter(of_call).map(|event| &event["event"]).collect()
}

fn kinds<'a>(events: &[&'a Value]) -> Vec<&'a str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// What the model read of the calls of the first round.
async fn results(session: &Session<'_>) -> Vec<Value> {
    let history = session.history().await;
    let blocks = history[2]["message"]["content"].as_array().unwrap();
    blocks.iter().map(|block| json!([block["is_error"], block["content"]])).collect()
}

/// The sessions of a session's sub-agents, oldest first.
async fn children<'a>(session: &Session<'a>) -> Vec<Session<'a>> {
    let path = format!("/v1/sessions?order=asc&parent={}", session.id);
    let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    let ids = page["data"].as_array().unwrap().iter().map(|child| child["id"].as_str().unwrap());
    ids.map(|id| session.app.existing_session(id)).collect()
}

/// Waits until a session has so many sub-agents.
async fn has_children<'a>(session: &Session<'a>, count: usize) -> Vec<Session<'a>> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let children = children(session).await;
        if children.len() == count {
            return children;
        }
        assert!(tokio::time::Instant::now() < deadline, "there are not {count}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// A reply that takes a moment.
fn slowly(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "delay_ms": 200 })
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sub_agents_work_at_the_same_time_and_their_parent_answers_once() {
    let app = TestApp::start(counts(&slowly("Three ducks."), &slowly("Four geese."))).await;
    let session = session(&app).await;
    let run = session.ask("Count all birds").await;
    assert_eq!(run["output_text"], "Seven birds.");
    let expected = [json!([null, "Three ducks."]), json!([null, "Four geese."])];
    assert_eq!(results(&session).await, expected);

    let events = session.events().await;
    let running =
        ["session.status_running", "agent.message", "session.usage", "session.status_idle"];
    for (call, said) in [("toolu_1", "Three ducks."), ("toolu_2", "Four geese.")] {
        let told = told(&events, call);
        assert_eq!(kinds(&told), running, "{call}");
        assert_eq!(told[1]["content"][0]["text"], said);
        assert!(told.windows(2).all(|pair| pair[0]["seq"].as_i64() < pair[1]["seq"].as_i64()));
    }
    let places = |kind: &str| -> Vec<usize> {
        let numbered = events.iter().enumerate();
        let of_kind = numbered.filter(|(_, event)| event["event"]["type"] == kind);
        of_kind.map(|(place, _)| place).collect()
    };
    let last_begin = places("session.status_running").into_iter().max();
    let first_end = places("session.status_idle").into_iter().min();
    assert!(last_begin < first_end, "they did not work at the same time");
    let answers = events.iter().filter(|event| event["type"] == "agent.message");
    assert_eq!(answers.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_has_a_conversation_of_its_own_that_can_be_read() {
    let app = TestApp::start(counts(&says("Three ducks."), &says("Four geese."))).await;
    let session = session(&app).await;
    let run = session.ask("Count all birds").await;
    let run = session.run(&run).await;
    let agents = run["sub_agents"].as_array().unwrap();
    assert_eq!(agents.len(), 2);
    let child = app.existing_session(agents[0]["session_id"].as_str().unwrap());
    let read = child.read().await;
    let parent = json!({ "session_id": session.id, "run_id": run["id"], "tool_use_id": "toolu_1" });
    assert_eq!((&read["parent"], &read["title"]), (&parent, &json!("About count the ducks")));
    assert_eq!(read["tools"], json!(["read_file", "write_file"]));
    let texts: Vec<Value> = child
        .history()
        .await
        .iter()
        .map(|item| json!([item["type"], item["message"]["content"][0]["text"]]))
        .collect();
    let expected = [json!(["user", "count the ducks"]), json!(["assistant", "Three ducks."])];
    assert_eq!(texts, expected);

    let created = session.events().await;
    let created = created.iter().find(|event| event["type"] == "session.thread_created").unwrap();
    let told = json!([
        created["session_thread_id"],
        created["thread_run_id"],
        created["agent_name"],
        created["description"]
    ]);
    let ids = (&agents[0]["session_id"], &agents[0]["run_id"]);
    assert_eq!(told, json!([ids.0, ids.1, "general", "About count the ducks"]));

    // It is found by its parent, and does not stand among the sessions that people have made.
    let found: Vec<String> =
        children(&session).await.iter().map(|child| child.id.clone()).collect();
    assert_eq!(json!(found), json!([agents[0]["session_id"], agents[1]["session_id"]]));
    let all: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    assert_eq!(all["data"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sub_agents_use_is_told_apart_from_what_their_parent_uses() {
    let (mut ducks, mut geese) = (says("Three ducks."), says("Four geese."));
    ducks["usage"] = json!({ "input_tokens": 100, "output_tokens": 10 });
    geese["usage"] = json!({ "input_tokens": 200, "output_tokens": 20 });
    let mut script = counts(&ducks, &geese);
    for reply in script["conversations"][0]["replies"].as_array_mut().unwrap() {
        reply["usage"] = json!({ "input_tokens": 1, "output_tokens": 1 });
    }
    let app = TestApp::start(script).await;
    let session = session(&app).await;
    let run = session.ask("Count all birds").await;
    let run = session.run(&run).await;
    assert_eq!(run["usage"]["input_tokens"], 2);
    let used: Vec<&Value> = run["sub_agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| &agent["usage"]["input_tokens"])
        .collect();
    assert_eq!(used, [&json!(100), &json!(200)]);
    assert_eq!(run["sub_agents"][0]["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_works_in_the_folder_of_its_parent() {
    let writes = calls("write_file", json!({ "path": "ducks.txt", "content": "Three.\n" }));
    let script = script(&[
        (
            "all birds",
            &[
                delegates(&["count the ducks"]),
                calls("read_file", json!({ "path": "ducks.txt" })),
                says("Three birds."),
            ],
        ),
        ("ducks", &[writes, says("It is in ducks.txt.")]),
    ]);
    let setup = Setup { own_folders: true, ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let session = session(&app).await;
    assert_eq!(session.ask("Count all birds").await["output_text"], "Three birds.");
    let history = session.history().await;
    assert_eq!(history[4]["message"]["content"][0]["content"], "Three.\n");
    // A fork of the sub-agent's session has its files as well.
    let [child] = children(&session).await.try_into().ok().unwrap();
    let fork = app.post(&child.path("/forks")).json(&json!({})).send().await.unwrap();
    let fork: Value = fork.json().await.unwrap();
    let copy = app.folder.path().join("workspaces").join(fork["id"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(copy.join("ducks.txt")).unwrap(), "Three.\n");

    let told_calls = session.events().await;
    assert_eq!(
        kinds(&told(&told_calls, "toolu_1")),
        [
            "session.status_running",
            "agent.tool_use",
            "agent.tool_result",
            "agent.message",
            "session.usage",
            "session.status_idle"
        ]
    );
}
