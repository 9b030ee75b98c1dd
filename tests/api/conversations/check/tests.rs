//! Tests of the checks: they accept valid sessions and detect every kind of fault.

use serde_json::{Value, json};

use super::*;

const HELLO: &str = r#"{"role":"user","content":[{"type":"text","text":"Hello"}]}"#;
const CALL: &str = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{ "a" : 1.0 }}]}"#;
const RESULT: &str =
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"}]}"#;
const REPLY: &str = r#"{"role":"assistant","content":[{"type":"text","text":"There."}]}"#;
const THANKS: &str = r#"{"role":"user","content":[{"type":"text","text":"Thanks"}]}"#;
const SEARCH: &str = r#"{"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]}"#;
const WITHOUT_SEARCH: &str =
    r#"{"role":"assistant","content":[{"type":"text","text":"Let me see."}]}"#;

fn body(messages: &[&str]) -> String {
    with_budget(messages, 1000)
}

fn with_budget(messages: &[&str], max_tokens: u32) -> String {
    let messages = messages.join(",");
    format!(
        r#"{{"model":"m","max_tokens":{max_tokens},"stream":true,"system":"Be brief.","messages":[{messages}]}}"#
    )
}

fn history(messages: &[&str]) -> Vec<Message> {
    messages.iter().map(|message| Message::read(message)).collect()
}

/// The requests and the history of a valid session with three requests.
fn valid() -> (Vec<String>, Vec<Message>) {
    let all = [HELLO, CALL, RESULT, REPLY, THANKS];
    let bodies = [&all[..1], &all[..3], &all[..5]].map(body).into();
    (bodies, history(&[HELLO, CALL, RESULT, REPLY, THANKS, REPLY]))
}

/// The number of faults after replacing a part of one request.
fn faults_with(request: usize, part: &str, other: &str) -> usize {
    let (mut bodies, history) = valid();
    assert!(bodies[request].contains(part));
    bodies[request] = bodies[request].replace(part, other);
    faults(&bodies, &history).len()
}

#[test]
fn a_valid_session_has_no_faults() {
    let (bodies, history) = valid();
    assert_eq!(faults(&bodies, &history), Vec::<String>::new());
    assert_eq!(faults::<String>(&[], &[]), Vec::<String>::new());
}

#[test]
fn cache_marks_may_move_and_a_truncated_reply_may_be_requested_again_with_more_tokens() {
    let (mut bodies, history) = valid();
    bodies.insert(1, with_budget(&[HELLO], 2000));
    bodies[2] =
        bodies[2].replace(r#""Hello"}"#, r#""Hello","cache_control":{"type":"ephemeral"}}"#);
    bodies[3] = bodies[3].replace(
        r#","messages""#,
        r#","cache_control":{"type":"ephemeral","ttl":"1h"},"messages""#,
    );
    bodies[3] = bodies[3].replace("]}]}", r#"]}],"tool_choice":{"type":"none"}}"#);
    assert_eq!(faults(&bodies, &history), Vec::<String>::new());
    bodies[2] = bodies[2].replace("1000", "3000");
    assert_eq!(faults(&bodies, &history), ["request 2 has another max_tokens"]);
}

#[test]
fn an_unreadable_block_may_be_replaced_by_the_placeholder_and_by_nothing_else() {
    let raw = format!(r#"{{"role":"user","content":[{}]}}"#, unreadable());
    let replaced = raw.replace(&unreadable().to_string(), &placeholder());
    let of = |messages: &[&str]| {
        let bodies = messages.iter().map(|message| body(&[HELLO, REPLY, message, REPLY, message]));
        faults(&bodies.collect::<Vec<_>>(), &history(&[HELLO, REPLY, &raw, REPLY, &raw, REPLY]))
            .len()
    };
    assert_eq!(of(&[&raw, &raw, &replaced, &replaced]), 0);
    assert_eq!(of(&[&raw, &replaced, &raw]), 1, "the block is sent again");
    assert_eq!(of(&[&raw, THANKS]), 2, "another text");
    let one = [body(&[HELLO, REPLY, &raw]), body(&[HELLO, REPLY, &replaced, REPLY, &raw])];
    assert_eq!(faults(&one, &history(&[HELLO, REPLY, &raw, REPLY, &raw, REPLY])).len(), 0);
    assert_eq!(
        faults(&one[..1], &history(&[HELLO, REPLY, &replaced])).len(),
        1,
        "the history keeps the block"
    );
}

#[test]
fn each_unreadable_block_may_be_refused_once_and_twice_more_per_interruption() {
    let two = format!(r#"{{"role":"user","content":[{0},{0}]}}"#, unreadable());
    let history = history(&[HELLO, REPLY, &two, REPLY]);
    assert_eq!(excess_refusals(2, &history, 0), None);
    assert_eq!(
        excess_refusals(3, &history, 0),
        Some("3 refusals with 2 blocks and 0 interruptions".to_owned())
    );
    assert_eq!(excess_refusals(4, &history, 1), None);
    assert!(excess_refusals(5, &history, 1).is_some());
}

#[test]
fn a_message_that_is_in_the_history_twice_is_detected() {
    let echo = REPLY.replace("There.", "Hello");
    let once = history(&[HELLO, &echo, THANKS, REPLY]);
    assert_eq!(duplicates(&once, ["Hello", "Thanks", "Never"].into_iter()), Vec::<String>::new());
    let twice = history(&[HELLO, REPLY, THANKS, REPLY, HELLO, REPLY]);
    assert_eq!(
        duplicates(&twice, ["Hello", "Thanks"].into_iter()),
        ["Hello is in the history more than once"]
    );
}

#[test]
fn a_changed_byte_is_detected_by_comparison_of_requests_and_with_the_history() {
    assert_eq!(faults_with(1, "Hello", "hello"), 2, "the request and the next one");
    assert_eq!(faults_with(2, "Hello", "hello"), 2, "the request and the history");
    assert_eq!(
        faults_with(2, "Be brief.", "Be brief!"),
        1,
        "only the request: it is before the messages"
    );
    assert_eq!(faults_with(2, "Thanks", "thanks"), 1, "only the history: it is a new message");
}

#[test]
fn a_reserialized_block_is_detected() {
    assert_eq!(faults_with(2, r#"{ "a" : 1.0 }"#, r#"{"a":1.0}"#), 2);
    assert_eq!(
        faults_with(2, r#""thinking":"","signature":"s""#, r#""signature":"s","thinking":"""#),
        2
    );
}

#[test]
fn missing_or_reordered_messages_are_detected() {
    let two = format!("{RESULT},{REPLY}");
    assert_eq!(faults_with(2, &two, &format!("{REPLY},{RESULT}")), 2);
    assert_eq!(faults_with(2, &format!("{two},"), ""), 2);
    assert_eq!(
        faults_with(1, &format!(",{RESULT}"), ""),
        0,
        "the next request may add more messages"
    );
    let (bodies, mut history) = valid();
    history.remove(2);
    assert_eq!(faults(&bodies, &history).len(), 1);
}

#[test]
fn only_open_server_calls_may_be_left_out_and_only_before_a_user_message() {
    let stored = history(&[HELLO, SEARCH, THANKS, REPLY]);
    let of = |messages: &[&str]| {
        faults(&[body(&[HELLO]), body(&[HELLO, SEARCH]), body(messages)], &stored).len()
    };
    assert_eq!(of(&[HELLO, WITHOUT_SEARCH, THANKS]), 0);
    assert_eq!(of(&[HELLO, SEARCH, THANKS]), 1, "the model would refuse the open call");
    assert_eq!(of(&[HELLO, THANKS]), 2, "the text must not be left out");
    assert_eq!(of(&[HELLO, WITHOUT_SEARCH]), 2, "no message follows");
    assert_eq!(of(&[HELLO, WITHOUT_SEARCH, RESULT]), 2, "results are not a user message");
    let thinking = SEARCH.replace(r#""text","text":"Let me see.""#, r#""thinking","thinking":"""#);
    let without_user = [body(&[HELLO, &thinking]), body(&[HELLO])];
    assert_eq!(faults(&without_user, &history(&[HELLO])).len(), 1);
    let with_user = [body(&[HELLO, &thinking]), body(&[HELLO, THANKS])];
    assert_eq!(faults(&with_user, &history(&[HELLO, &thinking, THANKS])).len(), 0);
    let bodies = [body(&[HELLO]), body(&[HELLO, SEARCH])];
    assert_eq!(
        faults(&bodies, &history(&[HELLO, SEARCH])).len(),
        1,
        "without a user message the call is still sent"
    );
}

const SUMMARY: &str = r#"{"role":"assistant","content":[{"type":"compaction","content":"They met.","signature":"s"}]}"#;

/// A session with a summary before its third request.
fn compacted() -> (Vec<String>, Vec<Message>) {
    let bodies = vec![
        body(&[HELLO]),
        body(&[HELLO, CALL, RESULT]),
        body(&[SUMMARY, THANKS]),
        body(&[SUMMARY, THANKS, REPLY, HELLO]),
    ];
    (bodies, history(&[HELLO, CALL, RESULT, REPLY, THANKS, REPLY, HELLO, REPLY]))
}

#[test]
fn a_summary_may_replace_only_the_messages_before_a_run() {
    let (bodies, history) = compacted();
    assert_eq!(faults(&bodies, &history), Vec::<String>::new());
    for (request, part, other) in [
        (2, "Thanks", "Thank"),
        (3, "They met.", "They left."),
        (3, "There.", "There!"),
        (2, "Be brief", "Be"),
    ] {
        let mut bodies = bodies.clone();
        assert!(bodies[request].contains(part));
        bodies[request] = bodies[request].replace(part, other);
        assert!(!faults(&bodies, &history).is_empty(), "{part}");
    }
    let mut late = bodies.clone();
    late[2] = body(&[SUMMARY, REPLY, THANKS]);
    assert!(!faults(&late, &history).is_empty());
}

#[test]
fn the_final_state_of_a_run_is_explained_by_its_script_or_by_an_action() {
    let completed = json!({ "status": "completed" });
    let cancelled = json!({ "status": "cancelled" });
    let failed = |error: &str| json!({ "status": "failed", "error": { "type": error } });
    let scripted = json!([{ "content": [] }, { "status": 400 }]);
    let retried = json!([{ "content": [], "fail_first": [{ "status": 529 }] }]);
    let call = json!({ "type": "tool_use", "id": "1", "name": "f" });
    let duplicate_ids = json!([{ "content": [call, call] }]);
    let is_explained = |run: &Value, script: &Value, is_stopped, restarts| {
        runs::unexplained(run, script, is_stopped, restarts).is_none()
    };
    for (run, script, is_stopped, restarts, expected) in [
        (&completed, &retried, false, 0, true),
        (&cancelled, &retried, true, 0, true),
        (&cancelled, &retried, false, 9, false),
        (&failed("model_request_failed_error"), &scripted, false, 0, true),
        (&failed("model_request_failed_error"), &duplicate_ids, false, 0, true),
        (&failed("model_request_failed_error"), &retried, true, 9, false),
        (&failed("model_overloaded_error"), &scripted, true, 9, false),
        (&failed("internal_error"), &scripted, true, 9, false),
        (&failed("crash_loop"), &scripted, true, 6, false),
        (&failed("crash_loop"), &retried, false, 7, true),
    ] {
        assert_eq!(is_explained(run, script, is_stopped, restarts), expected, "{run} {script}");
    }
}

#[test]
fn only_repairs_of_an_open_search_and_its_empty_message_are_explained() {
    let of = |repairs: &[(&str, u64)]| {
        let repairs: Vec<(String, u64)> =
            repairs.iter().map(|(kind, times)| ((*kind).to_owned(), *times)).collect();
        repairs::unexplained(&repairs)
    };
    assert_eq!(of(&[("empty_message", 2), ("open_server_call", 2)]), Vec::<String>::new());
    assert_eq!(
        of(&[("empty_message", 3), ("missing_result", 1), ("open_server_call", 2)]),
        ["unexpected repair: empty_message, 3 times", "unexpected repair: missing_result, 1 times"]
    );
}
