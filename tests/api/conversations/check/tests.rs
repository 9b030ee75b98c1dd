//! The check itself: it lets pass what may be, and finds what was broken.

use serde_json::{Value, json};

use super::*;

const HELLO: &str = r#"{"role":"user","content":[{"type":"text","text":"Hello"}]}"#;
const CALLED: &str = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{ "a" : 1.0 }}]}"#;
const ANSWERED: &str =
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"}]}"#;
const SAID: &str = r#"{"role":"assistant","content":[{"type":"text","text":"There."}]}"#;
const THANKS: &str = r#"{"role":"user","content":[{"type":"text","text":"Thanks"}]}"#;
const SEARCHED: &str = r#"{"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]}"#;
const SEARCHED_NO_MORE: &str =
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

/// A session of three requests, and its history.
fn sound() -> (Vec<String>, Vec<Message>) {
    let all = [HELLO, CALLED, ANSWERED, SAID, THANKS];
    let bodies = [&all[..1], &all[..3], &all[..5]].map(body).into();
    (bodies, history(&[HELLO, CALLED, ANSWERED, SAID, THANKS, SAID]))
}

/// How many faults there are when a part of one request is another.
fn broken(request: usize, part: &str, other: &str) -> usize {
    let (mut bodies, history) = sound();
    assert!(bodies[request].contains(part));
    bodies[request] = bodies[request].replace(part, other);
    faults(&bodies, &history).len()
}

#[test]
fn a_sound_session_has_no_faults() {
    let (bodies, history) = sound();
    assert_eq!(faults(&bodies, &history), Vec::<String>::new());
    assert_eq!(faults::<String>(&[], &[]), Vec::<String>::new());
}

#[test]
fn marks_move_and_a_cut_reply_is_asked_for_again_with_more() {
    let (mut bodies, history) = sound();
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
    assert_eq!(faults(&bodies, &history), ["request 2 has a budget of its own"]);
}

#[test]
fn what_could_not_be_read_may_give_way_to_the_word_once_and_to_no_other() {
    let raw = format!(r#"{{"role":"user","content":[{}]}}"#, unreadable());
    let read = raw.replace(&unreadable().to_string(), &word());
    let of = |photos: &[&str]| {
        let bodies = photos.iter().map(|photo| body(&[HELLO, SAID, photo, SAID, photo]));
        faults(&bodies.collect::<Vec<_>>(), &history(&[HELLO, SAID, &raw, SAID, &raw, SAID])).len()
    };
    assert_eq!(of(&[&raw, &raw, &read, &read]), 0);
    assert_eq!(of(&[&raw, &read, &raw]), 1, "it is forgotten");
    assert_eq!(of(&[&raw, THANKS]), 2, "another word");
    let one = [body(&[HELLO, SAID, &raw]), body(&[HELLO, SAID, &read, SAID, &raw])];
    assert_eq!(faults(&one, &history(&[HELLO, SAID, &raw, SAID, &raw, SAID])).len(), 0);
    assert_eq!(
        faults(&one[..1], &history(&[HELLO, SAID, &read])).len(),
        1,
        "it is stored as it was"
    );
}

#[test]
fn each_block_that_cannot_be_read_may_be_refused_once_and_again_where_a_run_ends() {
    let two = format!(r#"{{"role":"user","content":[{0},{0}]}}"#, unreadable());
    let history = history(&[HELLO, SAID, &two, SAID]);
    assert_eq!(needless(2, &history, 0), None);
    assert_eq!(needless(3, &history, 0), Some("3 refusals of 2 blocks and 0 ends".to_owned()));
    assert_eq!(needless(4, &history, 1), None);
    assert!(needless(5, &history, 1).is_some());
}

#[test]
fn a_message_that_stands_twice_in_the_history_is_found() {
    let echo = SAID.replace("There.", "Hello");
    let once = history(&[HELLO, &echo, THANKS, SAID]);
    assert_eq!(doubled(&once, ["Hello", "Thanks", "Never"].into_iter()), Vec::<String>::new());
    let twice = history(&[HELLO, SAID, THANKS, SAID, HELLO, SAID]);
    assert_eq!(doubled(&twice, ["Hello", "Thanks"].into_iter()), ["Hello stands there twice"]);
}

#[test]
fn a_changed_byte_is_found_in_the_request_and_in_what_is_stored() {
    assert_eq!(broken(1, "Hello", "hello"), 2, "in the middle: from and back to it");
    assert_eq!(broken(2, "Hello", "hello"), 2, "at the end: the prefix and the store");
    assert_eq!(broken(2, "Be brief.", "Be brief!"), 1, "before the messages");
    assert_eq!(broken(2, "Thanks", "thanks"), 1, "only the store knows");
}

#[test]
fn a_block_that_was_written_anew_is_found() {
    assert_eq!(broken(2, r#"{ "a" : 1.0 }"#, r#"{"a":1.0}"#), 2);
    assert_eq!(
        broken(2, r#""thinking":"","signature":"s""#, r#""signature":"s","thinking":"""#),
        2
    );
}

#[test]
fn messages_that_are_missing_or_in_another_order_are_found() {
    let two = format!("{ANSWERED},{SAID}");
    assert_eq!(broken(2, &two, &format!("{SAID},{ANSWERED}")), 2);
    assert_eq!(broken(2, &format!("{two},"), ""), 2);
    assert_eq!(broken(1, &format!(",{ANSWERED}"), ""), 0, "the next one may grow by more");
    let (bodies, mut history) = sound();
    history.remove(2);
    assert_eq!(faults(&bodies, &history).len(), 1);
}

#[test]
fn only_what_is_open_of_the_models_own_tools_may_be_left_out_and_only_when_the_user_goes_on() {
    let stored = history(&[HELLO, SEARCHED, THANKS, SAID]);
    let of = |messages: &[&str]| {
        faults(&[body(&[HELLO]), body(&[HELLO, SEARCHED]), body(messages)], &stored).len()
    };
    assert_eq!(of(&[HELLO, SEARCHED_NO_MORE, THANKS]), 0);
    assert_eq!(of(&[HELLO, SEARCHED, THANKS]), 1, "the model would not take it");
    assert_eq!(of(&[HELLO, THANKS]), 2, "the text stays");
    assert_eq!(of(&[HELLO, SEARCHED_NO_MORE]), 2, "nobody went on");
    assert_eq!(of(&[HELLO, SEARCHED_NO_MORE, ANSWERED]), 2, "results are not the user");
    let thought = SEARCHED.replace(r#""text","text":"Let me see.""#, r#""thinking","thinking":"""#);
    let nobody_goes_on = [body(&[HELLO, &thought]), body(&[HELLO])];
    assert_eq!(faults(&nobody_goes_on, &history(&[HELLO])).len(), 1);
    let user_goes_on = [body(&[HELLO, &thought]), body(&[HELLO, THANKS])];
    assert_eq!(faults(&user_goes_on, &history(&[HELLO, &thought, THANKS])).len(), 0);
    let bodies = [body(&[HELLO]), body(&[HELLO, SEARCHED])];
    assert_eq!(
        faults(&bodies, &history(&[HELLO, SEARCHED])).len(),
        1,
        "it is still stored as open"
    );
}

const SUMMARY: &str = r#"{"role":"assistant","content":[{"type":"compaction","content":"They met.","signature":"s"}]}"#;

/// A session whose beginning was summed up before its third request.
fn summed_up() -> (Vec<String>, Vec<Message>) {
    let bodies = vec![
        body(&[HELLO]),
        body(&[HELLO, CALLED, ANSWERED]),
        body(&[SUMMARY, THANKS]),
        body(&[SUMMARY, THANKS, SAID, HELLO]),
    ];
    (bodies, history(&[HELLO, CALLED, ANSWERED, SAID, THANKS, SAID, HELLO, SAID]))
}

#[test]
fn a_summary_may_take_the_place_of_what_came_before_a_run_and_of_nothing_else() {
    let (bodies, history) = summed_up();
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
    late[2] = body(&[SUMMARY, SAID, THANKS]);
    assert!(!faults(&late, &history).is_empty());
}

#[test]
fn a_run_ends_as_its_script_says_or_by_what_was_done_to_it() {
    let completed = json!({ "status": "completed" });
    let cancelled = json!({ "status": "cancelled" });
    let failed = |word: &str| json!({ "status": "failed", "error": { "type": word } });
    let scripted = json!([{ "content": [] }, { "status": 400 }]);
    let retried = json!([{ "content": [], "fail_first": [{ "status": 529 }] }]);
    let call = json!({ "type": "tool_use", "id": "1", "name": "f" });
    let unreadable = json!([{ "content": [call, call] }]);
    let is_explained = |run: &Value, script: &Value, is_stopped, kills| {
        runs::unexplained(run, script, is_stopped, kills).is_none()
    };
    for (run, script, is_stopped, kills, expected) in [
        (&completed, &retried, false, 0, true),
        (&cancelled, &retried, true, 0, true),
        (&cancelled, &retried, false, 9, false),
        (&failed("model_request_failed_error"), &scripted, false, 0, true),
        (&failed("model_request_failed_error"), &unreadable, false, 0, true),
        (&failed("model_request_failed_error"), &retried, true, 9, false),
        (&failed("model_overloaded_error"), &scripted, true, 9, false),
        (&failed("internal_error"), &scripted, true, 9, false),
        (&failed("crash_loop"), &scripted, true, 2, false),
        (&failed("crash_loop"), &retried, false, 3, true),
    ] {
        assert_eq!(is_explained(run, script, is_stopped, kills), expected, "{run} {script}");
    }
}

#[test]
fn only_an_open_search_is_mended_and_what_it_leaves_of_its_message() {
    let of = |repairs: &[(&str, u64)]| {
        let repairs: Vec<(String, u64)> =
            repairs.iter().map(|(kind, times)| ((*kind).to_owned(), *times)).collect();
        repairs::unexplained(&repairs)
    };
    assert_eq!(of(&[("empty_message", 2), ("open_server_call", 2)]), Vec::<String>::new());
    assert_eq!(
        of(&[("empty_message", 3), ("missing_result", 1), ("open_server_call", 2)]),
        ["mended: empty_message, 3 times", "mended: missing_result, 1 times"]
    );
}
