//! Every fault and its repair, and the properties of all repairs.

use proptest::prelude::*;

use super::*;

const CALL_1: &str = r#"{"type":"tool_use","id":"1","name":"f","input":{}}"#;
const CALL_2: &str = r#"{"type":"tool_use","id":"2","name":"f","input":{}}"#;
const RESULT_1: &str = r#"{"type":"tool_result","tool_use_id":"1","content":"one"}"#;
const RESULT_2: &str = r#"{"type":"tool_result","tool_use_id":"2","content":"two"}"#;
const GENERATED_1: &str = r#"{"type":"tool_result","tool_use_id":"1","content":"Interrupted: the worker stopped while this call was running. It may have run in part or completely. Check the state before you repeat it.","is_error":true}"#;
const SERVER_CALL: &str = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#;
const SERVER_RESULT: &str = r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[]}"#;
const REDACTED: &str = r#"{"type":"redacted_thinking","data":"x"}"#;
const THINKING: &str = r#"{"type":"thinking","thinking":"","signature":"abc"}"#;
const TEXT: &str = r#"{"type":"text", "text":"Hello"}"#;
const BLANK: &str = r#"{"type":"text","text":" \n"}"#;
const BEGINNING: &str =
    r#"{"type":"text","text":"(The beginning of this conversation is missing.)"}"#;

/// Messages by their first letter and their blocks.
type Short<'a> = [(char, &'a [&'a str])];

fn lines(messages: &Short<'_>) -> Vec<Line<'static>> {
    let line = |(role, blocks): &(char, &[&str])| Line {
        role: if *role == 'u' { Role::User } else { Role::Assistant },
        content: Cow::Owned(format!("[{}]", blocks.join(","))),
    };
    messages.iter().map(line).collect()
}

/// Asserts the repaired messages and the repairs.
#[track_caller]
fn assert_repaired(messages: &Short<'_>, expected: &Short<'_>, kinds: &[(RepairKind, usize)]) {
    let repaired = repair(&lines(messages), true).expect("nothing was repaired");
    let repairs = kinds.iter().map(|(kind, index)| Repair { kind: *kind, index: *index });
    let expected = Repaired { lines: lines(expected), repairs: repairs.collect() };
    assert_eq!(repaired, expected);
    assert_eq!(repair(&repaired.lines, true), None, "a repaired history is valid");
}

#[test]
fn a_valid_history_is_not_changed() {
    let valid: [&Short<'_>; 6] = [
        &[],
        &[('u', &[TEXT]), ('a', &[THINKING, TEXT, CALL_1, CALL_2]), ('u', &[RESULT_2, RESULT_1])],
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[RESULT_1, TEXT]), ('a', &[CALL_1])],
        &[('u', &[TEXT]), ('u', &[TEXT]), ('a', &[SERVER_CALL]), ('a', &[SERVER_RESULT, TEXT])],
        &[('u', &[TEXT]), ('a', &[SERVER_CALL, CALL_1]), ('u', &[RESULT_1])],
        &[('u', &[TEXT]), ('a', &[SERVER_CALL])],
    ];
    for messages in valid {
        assert_eq!(repair(&lines(messages), true), None, "{messages:?}");
    }
}

#[test]
fn ids_may_repeat_in_later_rounds() {
    let round: &Short<'_> = &[('a', &[CALL_1]), ('u', &[RESULT_1])];
    let messages = [&[('u', &[TEXT] as &[&str])], round, round].concat();
    assert_eq!(repair(&lines(&messages), true), None);
    let lost = [&[('u', &[TEXT] as &[&str]), ('a', &[CALL_1]), ('u', &[TEXT])], round].concat();
    let expected =
        [&[('u', &[TEXT] as &[&str]), ('a', &[CALL_1]), ('u', &[GENERATED_1, TEXT])], round]
            .concat();
    assert_repaired(&lost, &expected, &[(RepairKind::MissingResult, 2)]);
}

#[test]
fn a_missing_result_is_added_in_its_place() {
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[CALL_1, CALL_2]), ('u', &[RESULT_2, TEXT])],
        &[('u', &[TEXT]), ('a', &[CALL_1, CALL_2]), ('u', &[GENERATED_1, RESULT_2, TEXT])],
        &[(RepairKind::MissingResult, 2)],
    );
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('a', &[TEXT]), ('u', &[TEXT])],
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[GENERATED_1]), ('a', &[TEXT]), ('u', &[TEXT])],
        &[(RepairKind::MissingResult, 2)],
    );
}

#[test]
fn a_result_without_a_call_is_left_out() {
    assert_repaired(
        &[('u', &[RESULT_1, TEXT]), ('a', &[TEXT]), ('u', &[RESULT_2])],
        &[('u', &[TEXT]), ('a', &[TEXT])],
        &[
            (RepairKind::OrphanedResult, 0),
            (RepairKind::OrphanedResult, 2),
            (RepairKind::EmptyMessage, 2),
        ],
    );
}

#[test]
fn a_late_result_is_moved() {
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[TEXT]), ('a', &[TEXT]), ('u', &[RESULT_1])],
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[RESULT_1, TEXT]), ('a', &[TEXT])],
        &[(RepairKind::LateResult, 2), (RepairKind::EmptyMessage, 4)],
    );
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[TEXT, RESULT_1])],
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[RESULT_1, TEXT])],
        &[(RepairKind::LateResult, 2)],
    );
}

#[test]
fn a_real_result_is_preferred_to_a_generated_one() {
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[GENERATED_1]), ('u', &[RESULT_1, TEXT])],
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[RESULT_1]), ('u', &[TEXT])],
        &[(RepairKind::LateResult, 2), (RepairKind::DuplicateResult, 2)],
    );
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[GENERATED_1, RESULT_1])],
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[RESULT_1])],
        &[(RepairKind::DuplicateResult, 2)],
    );
}

#[test]
fn blank_texts_and_empty_messages_are_left_out() {
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[]), ('u', &[BLANK, TEXT]), ('a', &[THINKING, BLANK])],
        &[('u', &[TEXT]), ('u', &[TEXT])],
        &[
            (RepairKind::EmptyMessage, 1),
            (RepairKind::BlankText, 2),
            (RepairKind::BlankText, 3),
            (RepairKind::EmptyMessage, 3),
        ],
    );
}

#[test]
fn an_open_server_call_is_left_out() {
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[THINKING, TEXT, SERVER_CALL]), ('u', &[TEXT])],
        &[('u', &[TEXT]), ('a', &[THINKING, TEXT]), ('u', &[TEXT])],
        &[(RepairKind::OpenServerCall, 1)],
    );
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[SERVER_CALL, CALL_1]), ('u', &[RESULT_1]), ('u', &[TEXT])],
        &[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[RESULT_1]), ('u', &[TEXT])],
        &[(RepairKind::OpenServerCall, 1)],
    );
}

#[test]
fn a_message_with_thinking_alone_is_empty() {
    assert_repaired(
        &[('u', &[TEXT]), ('a', &[THINKING, REDACTED, SERVER_CALL]), ('u', &[TEXT])],
        &[('u', &[TEXT]), ('u', &[TEXT])],
        &[(RepairKind::OpenServerCall, 1), (RepairKind::EmptyMessage, 1)],
    );
}

#[test]
fn a_history_begins_with_the_user() {
    assert_repaired(
        &[('a', &[TEXT]), ('u', &[TEXT])],
        &[('u', &[BEGINNING]), ('a', &[TEXT]), ('u', &[TEXT])],
        &[(RepairKind::MissingUserMessage, 0)],
    );
}

#[test]
fn unreadable_content_is_not_changed() {
    let mut broken = lines(&[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[])]);
    broken[2].content = Cow::Borrowed(r#""a string""#);
    let repaired = repair(&broken, true).unwrap();
    let mut expected =
        lines(&[('u', &[TEXT]), ('a', &[CALL_1]), ('u', &[GENERATED_1]), ('u', &[])]);
    expected[3].content = Cow::Borrowed(r#""a string""#);
    assert_eq!(repaired.lines, expected);
}

#[test]
fn escaped_json_is_read_like_plain_json() {
    for blank in [r#"{"type":"text","text" : "\u0020"}"#, r#"{"type":"text","te\u0078t":""}"#] {
        assert_repaired(&[('u', &[TEXT, blank])], &[('u', &[TEXT])], &[(RepairKind::BlankText, 0)]);
    }
    let orphan = r#"{"type":"tool\u005fresult","tool_use_id":"1"}"#;
    assert_repaired(
        &[('u', &[TEXT, orphan])],
        &[('u', &[TEXT])],
        &[(RepairKind::OrphanedResult, 0)],
    );
}

fn any_lines() -> impl Strategy<Value = Vec<Line<'static>>> {
    let block = prop::sample::select(vec![
        CALL_1,
        CALL_2,
        RESULT_1,
        RESULT_2,
        GENERATED_1,
        SERVER_CALL,
        SERVER_RESULT,
        THINKING,
        TEXT,
        TEXT,
        BLANK,
    ]);
    let message = (any::<bool>(), prop::collection::vec(block, 0..4));
    prop::collection::vec(message, 0..8).prop_map(|messages| {
        let mut seen = std::collections::HashSet::new();
        let line = |(is_user, blocks): (bool, Vec<&'static str>)| {
            seen.clear();
            // The loop refuses a reply that uses an id twice, and users make no calls.
            let is_possible = |block: &&'static str| {
                !block.contains("\"tool_use\"") || (!is_user && seen.insert(*block))
            };
            let blocks: Vec<&str> = blocks.into_iter().filter(is_possible).collect();
            let role = if is_user { Role::User } else { Role::Assistant };
            Line { role, content: Cow::Owned(format!("[{}]", blocks.join(","))) }
        };
        messages.into_iter().map(line).collect()
    })
}

proptest! {
    #[test]
    fn a_repaired_history_needs_no_repair(lines in any_lines(), is_start in any::<bool>()) {
        if let Some(repaired) = repair(&lines, is_start) {
            prop_assert_eq!(repair(&repaired.lines, is_start), None);
            prop_assert!(check::is_valid(&repaired.lines, is_start), "{:?}", repaired);
        }
    }

    #[test]
    fn a_history_that_passes_the_check_is_not_changed_by_a_repair(lines in any_lines()) {
        if check::is_valid(&lines, true) {
            let unchanged = Repaired { lines: lines.clone(), repairs: Vec::new() };
            prop_assert_eq!(fix::fix(&lines, true), unchanged);
        } else {
            prop_assert!(repair(&lines, true).is_some());
        }
    }
}
