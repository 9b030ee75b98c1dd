//! Sub-agents: runs in sessions of their own, which calls of `Task` start.

mod budgets;
mod failures;
mod recovery;
mod settings;

use serde_json::{Value, json};

use crate::support::{Session, Setup, TestApp, calls, calls_as, says};

/// Creates a session whose model can start sub-agents.
async fn session(app: &TestApp) -> Session<'_> {
    app.session_with(json!({ "tools": ["Task", "read_file", "write_file"] })).await
}

/// The input of a call of `Task`.
fn task_input(prompt: &str) -> Value {
    json!({ "description": format!("About {prompt}"), "prompt": prompt })
}

/// A reply with one call of `Task` for each prompt. The ids of the calls are `toolu_1` and so on.
fn task_calls(prompts: &[&str]) -> Value {
    let ids: Vec<String> = (1..=prompts.len()).map(|n| format!("toolu_{n}")).collect();
    let calls: Vec<_> = ids
        .iter()
        .zip(prompts)
        .map(|(id, prompt)| (id.as_str(), "Task", task_input(prompt)))
        .collect();
    calls_as(&calls)
}

/// A script of pairs: a text, and the replies to a message that contains the text.
fn script(conversations: &[(&str, &[Value])]) -> Value {
    let conversations: Vec<Value> = conversations
        .iter()
        .map(|(when, replies)| json!({ "when": when, "replies": replies }))
        .collect();
    json!({ "conversations": conversations, "otherwise": "refuse" })
}

/// The script of a parent that starts two sub-agents, one for ducks and one for geese, with the
/// replies to the sub-agents.
fn script_of_two(ducks: &Value, geese: &Value) -> Value {
    let parent = [task_calls(&["count the ducks", "count the geese"]), says("Seven birds.")];
    script(&[
        ("all birds", &parent),
        ("ducks", std::slice::from_ref(ducks)),
        ("geese", std::slice::from_ref(geese)),
    ])
}

/// The events of a sub-agent that its parent relayed, without their envelope.
fn relayed_events<'a>(events: &'a [Value], tool_use_id: &str) -> Vec<&'a Value> {
    let of_call = |event: &&Value| {
        event["type"] == "session.thread_event" && event["tool_use_id"] == tool_use_id
    };
    events.iter().filter(of_call).map(|event| &event["event"]).collect()
}

fn kinds<'a>(events: &[&'a Value]) -> Vec<&'a str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// The `is_error` and the content of each result of the first round.
async fn results(session: &Session<'_>) -> Vec<Value> {
    let history = session.history().await;
    let blocks = history[2]["message"]["content"].as_array().unwrap();
    blocks.iter().map(|block| json!([block["is_error"], block["content"]])).collect()
}

/// The sessions of the sub-agents of a session, oldest first.
async fn sub_agent_sessions<'a>(session: &Session<'a>) -> Vec<Session<'a>> {
    let path = format!("/v1/sessions?order=asc&parent={}", session.id);
    let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    let ids =
        page["data"].as_array().unwrap().iter().map(|sub_agent| sub_agent["id"].as_str().unwrap());
    ids.map(|id| session.app.existing_session(id)).collect()
}

/// Waits until a session has this number of sub-agents, and returns their sessions.
async fn wait_for_sub_agents<'a>(session: &Session<'a>, count: usize) -> Vec<Session<'a>> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    loop {
        let sessions = sub_agent_sessions(session).await;
        if sessions.len() == count {
            return sessions;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "the session has {} of {count} sub-agents",
            sessions.len()
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// A reply after a delay of 200 ms.
fn says_slowly(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "delay_ms": 200 })
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sub_agents_run_concurrently_and_their_parent_answers_once() {
    let app =
        TestApp::start(script_of_two(&says_slowly("Three ducks."), &says_slowly("Four geese.")))
            .await;
    let session = session(&app).await;
    let run = session.ask("Count all birds").await;
    assert_eq!(run["output_text"], "Seven birds.");
    let expected = [json!([null, "Three ducks."]), json!([null, "Four geese."])];
    assert_eq!(results(&session).await, expected);

    let events = session.events().await;
    let running =
        ["session.status_running", "agent.message", "session.usage", "session.status_idle"];
    for (call, text) in [("toolu_1", "Three ducks."), ("toolu_2", "Four geese.")] {
        let relayed = relayed_events(&events, call);
        assert_eq!(kinds(&relayed), running, "{call}");
        assert_eq!(relayed[1]["content"][0]["text"], text);
        assert!(relayed.windows(2).all(|pair| pair[0]["seq"].as_i64() < pair[1]["seq"].as_i64()));
    }
    let positions = |kind: &str| -> Vec<usize> {
        let numbered = events.iter().enumerate();
        let of_kind = numbered.filter(|(_, event)| event["event"]["type"] == kind);
        of_kind.map(|(position, _)| position).collect()
    };
    let last_start = positions("session.status_running").into_iter().max();
    let first_end = positions("session.status_idle").into_iter().min();
    assert!(last_start < first_end, "the sub-agents did not run concurrently");
    let answers = events.iter().filter(|event| event["type"] == "agent.message");
    assert_eq!(answers.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_has_a_session_that_clients_can_read() {
    let app = TestApp::start(script_of_two(&says("Three ducks."), &says("Four geese."))).await;
    let session = session(&app).await;
    let run = session.ask("Count all birds").await;
    let run = session.run(&run).await;
    let agents = run["sub_agents"].as_array().unwrap();
    assert_eq!(agents.len(), 2);
    let sub_agent = app.existing_session(agents[0]["session_id"].as_str().unwrap());
    let read = sub_agent.read().await;
    let parent = json!({ "session_id": session.id, "run_id": run["id"], "tool_use_id": "toolu_1" });
    assert_eq!((&read["parent"], &read["title"]), (&parent, &json!("About count the ducks")));
    assert_eq!(read["tools"], json!(["read_file", "write_file"]));
    let texts: Vec<Value> = sub_agent
        .history()
        .await
        .iter()
        .map(|item| json!([item["type"], item["message"]["content"][0]["text"]]))
        .collect();
    let expected = [json!(["user", "count the ducks"]), json!(["assistant", "Three ducks."])];
    assert_eq!(texts, expected);

    let events = session.events().await;
    let created = events.iter().find(|event| event["type"] == "session.thread_created").unwrap();
    let ids_and_texts = json!([
        created["session_thread_id"],
        created["thread_run_id"],
        created["agent_name"],
        created["description"]
    ]);
    let ids = (&agents[0]["session_id"], &agents[0]["run_id"]);
    assert_eq!(ids_and_texts, json!([ids.0, ids.1, "general", "About count the ducks"]));

    // The session is listed by its parent, and not in the list of all sessions.
    let found: Vec<String> =
        sub_agent_sessions(&session).await.iter().map(|sub_agent| sub_agent.id.clone()).collect();
    assert_eq!(json!(found), json!([agents[0]["session_id"], agents[1]["session_id"]]));
    let all: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    assert_eq!(all["data"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_sub_agents_is_reported_separately_from_their_parent() {
    let (mut ducks, mut geese) = (says("Three ducks."), says("Four geese."));
    ducks["usage"] = json!({ "input_tokens": 100, "output_tokens": 10 });
    geese["usage"] = json!({ "input_tokens": 200, "output_tokens": 20 });
    let mut script = script_of_two(&ducks, &geese);
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
async fn a_sub_agent_works_in_the_workspace_of_its_parent() {
    let writes = calls("write_file", json!({ "path": "ducks.txt", "content": "Three.\n" }));
    let script = script(&[
        (
            "all birds",
            &[
                task_calls(&["count the ducks"]),
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
    // A fork of the sub-agent's session has a copy of the workspace.
    let [sub_agent] = sub_agent_sessions(&session).await.try_into().ok().unwrap();
    let fork = app.post(&sub_agent.path("/forks")).json(&json!({})).send().await.unwrap();
    let fork: Value = fork.json().await.unwrap();
    let copy = app.folder.path().join("workspaces").join(fork["id"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(copy.join("ducks.txt")).unwrap(), "Three.\n");

    let events = session.events().await;
    assert_eq!(
        kinds(&relayed_events(&events, "toolu_1")),
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
