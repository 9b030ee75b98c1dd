//! The text of transcripts, of repaired, changed and summarized histories.

use proptest::prelude::*;

use super::*;
use crate::domain::context::Compaction;
use crate::domain::prefix::{Hash, PrefixChange};
use crate::domain::sent_history::SentHistoryChange;

#[test]
fn messages_are_joined_as_a_request_carries_them() {
    let mut transcript = Transcript::default();
    transcript.push(Role::User, r#"[{"type": "text"}]"#);
    transcript.push(Role::Assistant, "[1]");
    let expected = concat!(
        r#"{"role":"user","content":[{"type": "text"}]},"#,
        r#"{"role":"assistant","content":[1]}"#
    );
    assert_eq!(transcript.messages().text, expected);
    assert_eq!(transcript.seq(), 2);
}

fn line(seq: i32, role: Role, content: &str) -> Line {
    Line { seq, role: role.as_str().to_owned(), content: content.to_owned() }
}

#[test]
fn stored_messages_are_copied_unchanged_and_so_are_later_ones() {
    let [asked, called, answered] = [
        r#"[{"type":"text","text":"a"}]"#,
        r#"[{"type":"tool_use","id":"1","name":"f","input":{ }}]"#,
        r#"[{"type":"tool_result","tool_use_id":"1"}]"#,
    ];
    let mut pushed = Transcript::default();
    pushed.push(Role::User, asked);
    pushed.push(Role::Assistant, called);
    pushed.push(Role::User, answered);
    let lines = [
        line(1, Role::User, asked),
        line(2, Role::Assistant, called),
        line(3, Role::User, answered),
    ];
    for cut in 0..=3 {
        let mut loaded = Transcript::default();
        loaded.append_stored(&lines[..cut]);
        loaded.append_stored(&lines[cut..]);
        assert_eq!((&loaded.text, loaded.seq()), (&pushed.text, 3));
        assert_eq!(loaded.take_repairs(), []);
        assert_eq!(loaded.send(head(), "m"), pushed.send(head(), "m"));
    }
}

#[test]
fn a_paused_turn_is_closed_with_the_next_user_message() {
    let hello = r#"[{"type":"text","text":"Hello"}]"#;
    let call = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#;
    let paused = format!(r#"[{{"type":"text","text":"Let me see."}},{call}]"#);
    let mut transcript = Transcript::default();
    transcript.push(Role::User, hello);
    transcript.push(Role::Assistant, &paused);
    transcript.push(Role::User, hello);
    let mut expected = Transcript::default();
    expected.push(Role::User, hello);
    expected.push(Role::Assistant, r#"[{"type":"text","text":"Let me see."}]"#);
    expected.push(Role::User, hello);
    assert_eq!(transcript.take_repairs(), [(RepairKind::OpenServerCall, 2)]);
    assert_eq!((&transcript.text, transcript.seq()), (&expected.text, 3));
}

fn head() -> HeadHashes {
    let [tools, system, choice, model, thinking, effort] =
        ["t", "s", "c", "m", "k", "e"].map(|text| Hash::of([text]));
    HeadHashes { tools, system, choice, model, thinking, effort }
}

#[test]
fn a_long_turn_has_a_marker_at_the_end_of_the_last_request() {
    let hello = r#"[{"type":"text","text":"Hello"}]"#;
    let many = |block: &str| format!("[{}]", [block; 10].join(","));
    let calls = many(r#"{"type":"tool_use","id":"1","name":"f","input":{}}"#);
    let results = many(r#"{"type":"tool_result","tool_use_id":"1"}"#);
    let mut transcript = Transcript::default();
    transcript.push(Role::User, hello);
    assert_eq!(transcript.messages().far_breakpoint, None);
    transcript.push(Role::Assistant, &calls);
    transcript.push(Role::User, &results);
    let asked = r#"{"role":"user","content":[{"type":"text","text":"Hello"}]}"#;
    assert_eq!(transcript.messages().far_breakpoint, Some(asked.len() - "}]}".len()));
    transcript.push(Role::Assistant, hello);
    transcript.push(Role::User, hello);
    assert_eq!(transcript.messages().far_breakpoint, None);
}

#[test]
fn changes_apply_to_stored_messages_and_not_to_later_ones() {
    let thought =
        r#"[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"a"}]"#;
    let said = r#"[{"type":"text","text":"a"}]"#;
    let lines = [line(1, Role::User, said), line(2, Role::Assistant, thought)];
    let mut transcript = Transcript::default();
    transcript.append_stored(&lines);
    let (_, change) = transcript.send(head(), "m");
    assert_eq!((change, transcript.without_thinking()), (None, Some(DROPPED)));
    transcript.reset();
    transcript.view.changes = vec![DROPPED];
    transcript.append_stored(&lines);
    assert_eq!(transcript.without_thinking(), None);
    let mut expected = Transcript::default();
    expected.push(Role::User, said);
    expected.push(Role::Assistant, said);
    assert_eq!(transcript.text, expected.text);
    let (hashes, change) = transcript.send(head(), "m");
    assert_eq!(hashes, expected.send(head(), "m").0);
    assert_eq!(change, Some(PrefixChange::Messages { index: 1 }));
    transcript.push(Role::User, said);
    transcript.push(Role::Assistant, thought);
    assert!(transcript.text.contains("signature"));
    assert_eq!(transcript.send(head(), "m").1, None);
}

const DROPPED: SentHistoryChange = SentHistoryChange::ThinkingDropped { up_to: 2 };

#[test]
fn a_summary_comes_first_and_replaces_the_summarized_messages() {
    let said = |text: &str| format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    let summary = r#"[{"type":"compaction", "content":"All.","signature":"s"}]"#;
    let lines: Vec<Line> = (1..)
        .zip([Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User])
        .map(|(seq, role)| line(seq, role, &said(&seq.to_string())))
        .collect();
    let compaction = |up_to| {
        let content = summary.to_owned();
        Some(Compaction { up_to, content, tokens_before: 9, tokens_after: 5 })
    };
    let first = message(Role::Assistant, summary);
    let sent = |seq: i32, role| message(role, &said(&seq.to_string()));
    for (up_to, expected) in [
        (4, vec![first.clone(), sent(5, Role::User)]),
        (3, vec![first.clone(), sent(4, Role::Assistant), sent(5, Role::User)]),
        (5, vec![first.clone()]),
    ] {
        let view = SentView { changes: Vec::new(), compaction: compaction(up_to) };
        assert_eq!(sent_messages(&lines, view), expected.join(","), "{up_to}");
    }

    let mut transcript = Transcript::default();
    transcript.append_stored(&lines);
    let _ = transcript.send(head(), "m");
    transcript.reset();
    transcript.view.compaction = compaction(4);
    transcript.append_stored(&lines[4..]);
    let (hashes, change) = transcript.send(head(), "m");
    assert_eq!((hashes.message_count, transcript.seq()), (2, 5));
    assert_eq!(change, Some(PrefixChange::Messages { index: 0 }));
    assert!(transcript.messages().is_compacted);
    transcript.push(Role::Assistant, &said("6"));
    transcript.push(Role::User, &said("7"));
    let all = [first, sent(5, Role::User), sent(6, Role::Assistant), sent(7, Role::User)];
    assert_eq!((transcript.text.clone(), transcript.seq()), (all.join(","), 7));
    assert_eq!(transcript.send(head(), "m").1, None);
    assert_eq!(transcript.take_repairs(), []);
}

/// A run of a generated history. Each begins with a message of the user.
#[derive(Debug, Clone, Copy)]
enum GeneratedRun {
    /// Stopped before the model answered.
    Stopped,
    Answered,
    /// Some calls, their results, and an answer.
    Calls(usize),
    /// A call whose result was lost.
    Lost,
    /// A paused turn, which begins with a text or not, and was resumed or stopped.
    Paused {
        has_text: bool,
        is_resumed: bool,
    },
    /// The same with a call next to that of the server tool.
    PausedWithCall {
        is_resumed: bool,
    },
}

fn generated_run() -> impl Strategy<Value = GeneratedRun> {
    prop_oneof![
        Just(GeneratedRun::Stopped),
        Just(GeneratedRun::Answered),
        (1..3_usize).prop_map(GeneratedRun::Calls),
        Just(GeneratedRun::Lost),
        any::<(bool, bool)>()
            .prop_map(|(has_text, is_resumed)| GeneratedRun::Paused { has_text, is_resumed }),
        any::<bool>().prop_map(|is_resumed| GeneratedRun::PausedWithCall { is_resumed }),
    ]
}

/// The messages of a run. Ids are unique.
fn generated_messages(id: usize, run: GeneratedRun) -> Vec<(Role, Vec<String>)> {
    let text = format!(r#"{{"type":"text","text":"{id}"}}"#);
    let call =
        |n: usize| format!(r#"{{"type":"tool_use","id":"{id}_{n}","name":"f","input":{{}}}}"#);
    let result = |n: usize| format!(r#"{{"type":"tool_result","tool_use_id":"{id}_{n}"}}"#);
    let search =
        format!(r#"{{"type":"server_tool_use","id":"s_{id}","name":"web_search","input":{{}}}}"#);
    let found =
        format!(r#"{{"type":"web_search_tool_result","tool_use_id":"s_{id}","content":[]}}"#);
    let answer = vec![text.clone()];
    let (messages, is_resumed) = match run {
        GeneratedRun::Stopped => (vec![], false),
        GeneratedRun::Answered => (vec![(Role::Assistant, answer)], false),
        GeneratedRun::Calls(count) => {
            let calls = (Role::Assistant, (0..count).map(call).collect());
            let results = (Role::User, (0..count).map(result).collect());
            (vec![calls, results, (Role::Assistant, answer)], false)
        }
        GeneratedRun::Lost => (vec![(Role::Assistant, vec![call(0)])], false),
        GeneratedRun::Paused { has_text: true, is_resumed } => {
            (vec![(Role::Assistant, vec![text.clone(), search])], is_resumed)
        }
        GeneratedRun::Paused { has_text: false, is_resumed } => {
            (vec![(Role::Assistant, vec![search])], is_resumed)
        }
        GeneratedRun::PausedWithCall { is_resumed } => {
            let calls = (Role::Assistant, vec![search, call(0)]);
            (vec![calls, (Role::User, vec![result(0)])], is_resumed)
        }
    };
    let end = is_resumed.then(|| (Role::Assistant, vec![found, text.clone()]));
    std::iter::once((Role::User, vec![text])).chain(messages).chain(end).collect()
}

/// The messages of these runs, and of a last one.
fn generated_history(runs: &[GeneratedRun]) -> Vec<Line> {
    let runs = runs.iter().chain([&GeneratedRun::Answered]).enumerate();
    let messages = runs.flat_map(|(id, run)| generated_messages(id, *run));
    let numbered = (1..).zip(messages);
    numbered
        .map(|(seq, (role, blocks))| line(seq, role, &format!("[{}]", blocks.join(","))))
        .collect()
}

fn role_of(line: &Line) -> Role {
    if line.role == Role::User.as_str() { Role::User } else { Role::Assistant }
}

proptest! {
    /// A worker appends the messages that it stores, and reads those of other workers. A restarted
    /// process reads all of them at once. All send the same bytes, and each request begins with the
    /// bytes of the one before it, unless the call of a server tool was never completed.
    #[test]
    fn every_worker_sends_a_history_that_begins_with_what_was_sent_before(
        runs in proptest::collection::vec(generated_run(), 0..6),
        is_read in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let lines = generated_history(&runs);
        let mut transcript = Transcript::default();
        let mut sent = String::new();
        for (index, line) in lines.iter().enumerate() {
            if is_read[index] {
                transcript.append_stored(std::slice::from_ref(line));
            } else {
                transcript.push(role_of(line), &line.content);
            }
            let is_paused = line.content.contains("server_tool_use");
            if role_of(line) == Role::Assistant && !is_paused {
                continue;
            }
            let read_at_once = sent_messages(&lines[..=index], SentView::default());
            prop_assert_eq!(&transcript.text, &read_at_once);
            let repairs = transcript.take_repairs();
            let is_closed =
                repairs.iter().any(|(kind, _)| *kind == RepairKind::OpenServerCall);
            prop_assert!(
                is_closed || transcript.text.starts_with(&sent),
                "{} does not begin with {}", transcript.text, sent
            );
            sent.clone_from(&transcript.text);
        }
    }
}
