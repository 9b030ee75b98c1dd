//! Calls that wait for an approval, and the decisions on them.

use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::permission::{Permission, Rule};

use crate::support::{
    BELL, Session, Setup, TestApp, asks, asks_for_approval_within, calls_as, pending, problem,
    replies, says,
};

/// A script of one call and an answer that repeats its result.
fn one_call(name: &str, input: Value) -> Value {
    replies(&[calls_as(&[("toolu_1", name, input)]), says("It said: {{results}}")])
}

fn write(path: &str, content: &str) -> Value {
    json!({ "path": path, "content": content })
}

/// The number of calls of `ring` that ran.
fn rings(app: &TestApp) -> usize {
    let text = std::fs::read_to_string(app.folder.path().join(BELL)).unwrap_or_default();
    text.lines().count()
}

async fn status_and_code(request: reqwest::RequestBuilder) -> (u16, Option<String>) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    (status, body["code"].as_str().map(str::to_owned))
}

fn code(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_until_it_is_allowed() {
    let script = one_call("write_file", write("a.txt", "new\n"));
    let app = TestApp::start_with(script, asks()).await;
    app.write_file("a.txt", "old\n");
    let session = app.session().await;
    let run = session.ask("Write it").await;
    let call = &run["pending"][0];
    let expected = json!([{
        "tool_use_id": "toolu_1", "name": "write_file", "input": write("a.txt", "new\n"),
        "awaits": "approval", "answer_by": call["answer_by"],
    }]);
    assert_eq!((&run["status"], &run["pending"]), (&json!("requires_action"), &expected));

    let approvals = session.approvals().await;
    let diff = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old\n+new\n";
    let expected = json!([{
        "type": "approval", "tool_use_id": "toolu_1", "name": "write_file",
        "input": write("a.txt", "new\n"), "display": r#"{"path":"a.txt","content":"new\n"}"#,
        "diff": diff, "answer_by": call["answer_by"],
    }]);
    assert_eq!(approvals, expected);

    let stop_reason = json!({ "type": "requires_action", "event_ids": ["toolu_1"] });
    let shown = session.read().await;
    assert_eq!(
        (&shown["status"], &shown["stop_reason"], &shown["active_run_id"]),
        (&json!("idle"), &stop_reason, &run["id"])
    );
    assert_eq!(session.events().await.last().unwrap()["stop_reason"], stop_reason);
    assert_eq!(session.verify().await["findings"], json!([]));
    assert_eq!(std::fs::read_to_string(app.folder.path().join("a.txt")).unwrap(), "old\n");

    session.allow("toolu_1", json!({})).await;
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], run.get("pending")), (&json!("completed"), None));
    assert_eq!(std::fs::read_to_string(app.folder.path().join("a.txt")).unwrap(), "new\n");
    assert_eq!(session.approvals().await, json!([]));
    let kinds = [
        "user.message",
        "session.status_running",
        "agent.tool_use",
        "session.status_idle",
        "user.tool_confirmation",
        "session.status_running",
        "agent.tool_result",
        "agent.message",
        "session.usage",
        "session.status_idle",
    ];
    assert_eq!(session.kinds().await, kinds);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_denial_is_sent_to_the_model() {
    let app = TestApp::start_with(one_call("ring", json!({ "line": "a" })), asks()).await;
    let session = app.session().await;
    let run = session.ask("Ring").await;
    session.deny("toolu_1", "Not at night. \u{1f319}").await;
    let run = session.settled(&run).await;
    let expected = "It said: Error: The approver denied this call, and it did not run. Not at night. \u{1f319}";
    assert_eq!((run["output_text"].as_str(), rings(&app)), (Some(expected), 0));
    let confirmed = session.events().await;
    let confirmed = confirmed.iter().find(|event| event["type"] == "user.tool_confirmation");
    let confirmed = confirmed.unwrap();
    assert_eq!(
        (&confirmed["tool_use_id"], &confirmed["result"], &confirmed["deny_message"]),
        (&json!("toolu_1"), &json!("deny"), &json!("Not at night. \u{1f319}"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_after_a_call_that_waits_run_after_it() {
    let calls = [
        ("toolu_1", "get_time", json!({})),
        ("toolu_2", "write_file", write("a.txt", "new\n")),
        ("toolu_3", "read_file", json!({ "path": "a.txt" })),
        ("toolu_4", "write_file", write("b.txt", "free\n")),
    ];
    let script = replies(&[calls_as(&calls), says("It said: {{results}}")]);
    let app = TestApp::start_with(script, asks()).await;
    app.write_file("a.txt", "old\n");
    let free = json!({ "tool": "write_file", "input": { "path": "b.txt" }, "decision": "allow" });
    let session = app.session_with(json!({ "permissions": [free] })).await;
    let run = session.ask("Write it and read it").await;
    let results = |events: &[Value]| -> Vec<Value> {
        let is_result = |event: &&Value| event["type"] == "agent.tool_result";
        events.iter().filter(is_result).map(|event| event["tool_use_id"].clone()).collect()
    };
    assert_eq!(results(&session.events().await), ["toolu_1"]);
    session.allow("toolu_2", json!({})).await;
    session.settled(&run).await;
    assert_eq!(results(&session.events().await), ["toolu_1", "toolu_2", "toolu_3", "toolu_4"]);
    let history = session.history().await;
    assert_eq!(history[2]["message"]["content"][2]["content"], "new\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_allow_an_input_that_the_operator_denies() {
    let deny = Rule {
        tool: "*".to_owned(),
        input: [("path".to_owned(), "secrets/**".to_owned())].into(),
        decision: Permission::Deny,
        reason: Some("Secrets are protected.\0".to_owned()),
    };
    let mut setup = asks();
    setup.permissions.as_mut().unwrap().rules = vec![deny].into();
    let app = TestApp::start_with(one_call("write_file", write("a.txt", "x")), setup).await;
    let session = app.session().await;
    let run = session.ask("Write it").await;
    session.allow("toolu_1", json!({ "input": write("secrets/a", "x") })).await;
    let run = session.settled(&run).await;
    let denied = "It said: Error: This call of write_file did not run: the permission rule for \"*\" \
        with path \"secrets/**\" denies it. Secrets are protected.\u{fffd}";
    assert_eq!(run["output_text"], denied);
    assert!(!app.folder.path().join("secrets").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_in_a_file_is_shown_and_written() {
    let app = TestApp::start_with(
        one_call("Write", json!({ "file_path": "a", "content": "x\0" })),
        asks(),
    )
    .await;
    let session = app.session().await;
    let run = session.ask("Write it").await;
    let diff = session.approvals().await[0]["diff"].as_str().unwrap().to_owned();
    assert!(diff.ends_with("+x\u{fffd}\n\\ No newline at end of file\n"), "{diff:?}");
    session.allow("toolu_1", json!({})).await;
    assert_eq!(session.settled(&run).await["status"], "completed");
    assert_eq!(std::fs::read(app.folder.path().join("a")).unwrap(), b"x\0");
    // No final check: the history has a NUL of the model, which SQL cannot read.
    assert_eq!(app.findings().await, Vec::<String>::new());
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_with_its_edited_input_and_the_history_keeps_the_original() {
    let app = TestApp::start_with(one_call("ring", json!({ "line": "loud" })), asks()).await;
    let session = app.session().await;
    let run = session.ask("Ring").await;
    session.allow("toolu_1", json!({ "input": { "line": "soft" } })).await;
    let run = session.settled(&run).await;
    let expected = "It said: [The input was changed before the call ran. It ran with \
                {\"line\":\"soft\"}]\nRang: soft";
    assert_eq!(run["output_text"], expected);
    let rung = std::fs::read_to_string(app.folder.path().join(BELL)).unwrap();
    assert_eq!(rung, "soft\n");
    let original = &session.history().await[1]["message"]["content"][0]["input"];
    assert_eq!(original, &json!({ "line": "loud" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remembered_decision_applies_to_later_calls() {
    let script = replies(&[
        calls_as(&[("toolu_1", "write_file", write("a.txt", "1"))]),
        calls_as(&[("toolu_2", "write_file", write("a.txt", "2"))]),
        calls_as(&[("toolu_3", "write_file", write("b.txt", "3"))]),
        says("Done."),
    ]);
    let app = TestApp::start_with(script, asks()).await;
    let session = app.session().await;
    let run = session.ask("Write them").await;
    assert_eq!(pending(&run), ["toolu_1"]);
    session.allow("toolu_1", json!({ "remember": "session" })).await;
    session.waits_for(&run, &["toolu_3"]).await;
    assert_eq!(std::fs::read_to_string(app.folder.path().join("a.txt")).unwrap(), "2");
    // The same decision again, with `remember`, is accepted.
    let again = json!({ "decision": "allow", "remember": "session" });
    assert_eq!(status_and_code(session.decide("toolu_1", &again)).await, (202, None));
    session.allow("toolu_3", json!({})).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    let remember = json!({ "decision": "allow", "remember": "session" });
    let late = status_and_code(session.decide("toolu_3", &remember)).await;
    assert_eq!(late, code(409, "already_resolved"), "a settled call cannot be remembered");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_a_round_are_decided_one_by_one() {
    let script = replies(&[
        calls_as(&[
            ("toolu_1", "ring", json!({ "line": "1" })),
            ("toolu_2", "get_time", json!({})),
            ("toolu_3", "ring", json!({ "line": "3" })),
            ("toolu_4", "ring", json!({ "line": "4" })),
        ]),
        says("Done."),
    ]);
    let app = TestApp::start_with(script, asks()).await;
    let session = app.session().await;
    let run = session.ask("Ring").await;
    assert_eq!(pending(&run), ["toolu_1", "toolu_3", "toolu_4"]);
    let run = session.deny("toolu_3", "Twice is enough.").await;
    assert_eq!(pending(&run), ["toolu_1", "toolu_4"]);
    session.allow("toolu_4", json!({})).await;
    assert_eq!(
        (session.run(&run).await["status"].as_str(), rings(&app)),
        (Some("requires_action"), 0)
    );
    assert_eq!(session.verify().await["findings"], json!([]));
    session.allow("toolu_1", json!({})).await;
    session.settled(&run).await;
    let rung = std::fs::read_to_string(app.folder.path().join(BELL)).unwrap();
    assert_eq!(rung, "1\n4\n");
    let history = session.history().await;
    let results = history[2]["message"]["content"].as_array().unwrap();
    let ids: Vec<&str> = results.iter().map(|it| it["tool_use_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["toolu_1", "toolu_2", "toolu_3", "toolu_4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_decision_changes_nothing_and_a_different_one_is_refused() {
    let app = TestApp::start_with(one_call("ring", json!({ "line": "a" })), asks()).await;
    let session = app.session().await;
    let run = session.ask("Ring").await;
    let allow = json!({ "decision": "allow", "input": { "line": "b" } });
    session.accepted(session.decide("toolu_1", &allow)).await;
    session.settled(&run).await;
    let events = session.events().await;
    let again = session.decide("toolu_1", &allow).send().await.unwrap();
    assert_eq!(
        (again.status().as_u16(), &again.headers()["idempotency-replayed"]),
        (200, &"true".parse().unwrap())
    );
    let (mut again, mut read) = (again.json::<Value>().await.unwrap(), session.run(&run).await);
    // The stream of the reply continues after the decision.
    let continued = again["stream_url"].take();
    let whole = read["stream_url"].take();
    assert!(
        continued.as_str().unwrap().starts_with(&format!("{}?after=", whole.as_str().unwrap()))
    );
    assert_eq!(again, read);
    for different in [
        json!({ "decision": "deny" }),
        json!({ "decision": "allow" }),
        json!({ "decision": "allow", "input": { "line": "c" } }),
    ] {
        let refused = session.decide("toolu_1", &different).send().await.unwrap();
        problem(refused, 409, "already_resolved").await;
    }
    assert_eq!((session.events().await, rings(&app)), (events, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_different_decisions_at_once_one_is_accepted() {
    let app = TestApp::start_with(one_call("ring", json!({ "line": "a" })), asks()).await;
    let mut allowed = 0;
    for pair in 0..20 {
        let session = app.session().await;
        let run = session.ask(&format!("Ring {pair}")).await;
        let (yes, no) = (json!({ "decision": "allow" }), json!({ "decision": "deny" }));
        let (yes, no) = tokio::join!(
            status_and_code(session.decide("toolu_1", &yes)),
            status_and_code(session.decide("toolu_1", &no)),
        );
        let refused = code(409, "already_resolved");
        let is_allowed = yes == (202, None);
        let statuses = if is_allowed { (yes, no) } else { (no, yes) };
        assert_eq!(statuses, ((202, None), refused));
        allowed += usize::from(is_allowed);
        session.settled(&run).await;
        assert_eq!(rings(&app), allowed, "exactly the allowed calls ran");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_decision_before_its_deadline_does_not_run() {
    let setup = asks_for_approval_within(Duration::from_millis(300));
    let app = TestApp::start_with(one_call("ring", json!({ "line": "a" })), setup).await;
    let session = app.session().await;
    let run = session.ask("Ring").await;
    let run = session.settled(&run).await;
    let expected = "It said: Error: The approval of this call was not decided before its deadline, so the call did not run.";
    assert_eq!(run["output_text"], expected);
    for decision in ["allow", "deny"] {
        let late = session.decide("toolu_1", &json!({ "decision": decision }));
        problem(late.send().await.unwrap(), 410, "approval_expired").await;
    }
    assert_eq!(rings(&app), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_run_holds_no_slot_and_survives_a_restart() {
    let script = one_call("ring", json!({ "line": "a" }));
    let setup = || Setup { slots: Some(1), ..asks() };
    let app = TestApp::start_with(script.clone(), setup()).await;
    let mut waiting_runs = Vec::new();
    for number in 0..3 {
        let session = app.session().await;
        let run = session.ask(&format!("Ring {number}")).await;
        assert_eq!(run["status"], "requires_action");
        waiting_runs.push((session.id.clone(), run));
    }
    let app = app.restarted_with(script, setup()).await;
    for (id, run) in waiting_runs {
        let session = app.existing_session(&id);
        assert_eq!(session.run(&run).await["status"], "requires_action");
        session.allow("toolu_1", json!({})).await;
        assert_eq!(session.settled(&run).await["output_text"], "It said: Rang: a");
    }
    assert_eq!(rings(&app), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_decision_waits_for_a_worker() {
    let script = one_call("ring", json!({ "line": "a" }));
    let app = TestApp::start_with(script.clone(), asks()).await;
    let session = app.session().await;
    let ring = json!({ "content": "Ring", "id": "m1" });
    let run = session.ask_with(ring.clone()).await;
    let id = session.id.clone();
    let app = app.restarted_with(script, Setup { no_worker: true, ..asks() }).await;
    let session = app.existing_session(&id);
    session.allow("toolu_1", json!({})).await;
    assert_eq!(session.explain(&run).await["waits_for"], "worker");
    // The run is running: it waits neither for an approval nor for a client.
    let again = session.message(&ring).header("prefer", "wait=1").send().await.unwrap();
    let (status, again) = (again.status(), again.json::<Value>().await.unwrap());
    assert_eq!((status.as_u16(), &again["status"]), (202, &json!("running")));
    let reject = json!({ "content": "Now", "on_busy": "reject" });
    let refused = session.message(&reject).send().await.unwrap();
    problem(refused, 409, "session_busy").await;
    assert_eq!(session.verify().await["findings"], json!([]));
    let other = app.second_service(asks()).await;
    assert_eq!(session.settled(&run).await["output_text"], "It said: Rang: a");
    assert_eq!(rings(&app), 1);
    other.stop().await;
}

/// A run that waits for the approval of its call, with its session.
async fn waiting<'a>(app: &'a TestApp, text: &str) -> (Session<'a>, Value) {
    let session = app.session().await;
    let run = session.ask(text).await;
    assert_eq!(run["status"], "requires_action");
    (session, run)
}

fn ring_or_answer() -> Value {
    json!({ "conversations": [
        { "when": "ring", "replies": [calls_as(&[("toolu_1", "ring", json!({ "line": "a" }))]), says("Rung.")] },
        { "replies": [says("You said {{user}}.")] },
    ], "otherwise": "refuse" })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_of_a_run_that_is_cancelled_while_it_waits_never_runs() {
    let app = TestApp::start_with(ring_or_answer(), asks()).await;
    let (session, run) = waiting(&app, "Ring").await;
    session.cancel(&run).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    for decision in ["allow", "deny"] {
        let late = session.decide("toolu_1", &json!({ "decision": decision }));
        problem(late.send().await.unwrap(), 409, "already_resolved").await;
    }
    assert_eq!(session.ask("Hello").await["output_text"], "You said Hello.");
    assert_eq!(rings(&app), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_a_waiting_session_is_queued_or_refused_or_interrupts() {
    let app = TestApp::start_with(ring_or_answer(), asks()).await;
    let (session, run) = waiting(&app, "Ring").await;
    let reject = json!({ "content": "Now", "on_busy": "reject" });
    let refused = session.message(&reject).send().await.unwrap();
    let refused = problem(refused, 409, "action_required").await;
    assert_eq!(refused["active_run_id"], run["id"]);
    let queued = session.post(json!({ "content": "Later" })).await;
    assert_eq!((&queued["status"], &queued["queue_position"]), (&json!("queued"), &json!(1)));
    session.allow("toolu_1", json!({})).await;
    assert_eq!(session.settled(&queued).await["output_text"], "You said Later.");
    assert_eq!(session.run(&run).await["output_text"], "Rung.");

    let (session, run) = waiting(&app, "Ring again").await;
    let interrupt = json!({ "content": "Instead", "on_busy": "interrupt" });
    let instead = session.post(interrupt).await;
    assert_eq!(session.settled(&instead).await["output_text"], "You said Instead.");
    assert_eq!(session.run(&run).await["status"], "cancelled");
    assert_eq!(rings(&app), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_the_run_waits_and_a_new_stream_continues_after_it() {
    let app = TestApp::start_with(ring_or_answer(), asks()).await;
    let session = app.session().await;
    let first = session.stream("Ring").await.rest().await;
    let rest = first.last().unwrap();
    assert_eq!(rest.data["stop_reason"]["type"], "requires_action");
    let run = json!({ "id": rest.data["run_id"] });
    session.allow("toolu_1", json!({})).await;
    let after = session.open(&session.run_stream(&run), rest.id).await.rest().await;
    let durable: Vec<&str> =
        after.iter().filter(|it| it.id.is_some()).map(|it| it.name.as_str()).collect();
    assert_eq!(
        (durable[0], *durable.last().unwrap()),
        ("user.tool_confirmation", "session.status_idle")
    );
    assert_eq!(after.last().unwrap().data["stop_reason"]["type"], "end_turn");
    let last = after.last().unwrap().id.unwrap().to_string();
    let finished = app.get(&session.run_stream(&run)).header("last-event-id", last);
    assert_eq!(finished.send().await.unwrap().status(), 204);
}
