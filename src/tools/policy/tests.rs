//! Tests of rules and modes, including attacks.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::*;

const ATTACKS: &str = include_str!("../../../tests/fixtures/rule_attacks.json");

/// A call and its expected decision.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    expected: Permission,
    tool: String,
    class: String,
    mode: PermissionMode,
    /// A harmless control case: a policy that refuses everything fails here.
    #[serde(default)]
    is_control: bool,
    #[serde(default)]
    operator: Vec<Rule>,
    #[serde(default)]
    session: Vec<Rule>,
    #[serde(default)]
    remembered: Vec<Rule>,
    /// The input, as the model writes it.
    input: String,
}

fn call(tool: &str, input: &str) -> ToolCall {
    ToolCall {
        tool_use_id: "toolu_1".to_owned(),
        name: tool.to_owned(),
        input: RawValue::from_string(input.to_owned()).unwrap(),
    }
}

fn class(word: &str) -> ToolClass {
    [ToolClass::Pure, ToolClass::Checkable, ToolClass::Effect, ToolClass::SubAgent]
        .into_iter()
        .find(|class| serde_json::to_value(class).unwrap() == word)
        .unwrap()
}

fn rules(list: serde_json::Value) -> Vec<Rule> {
    serde_json::from_value(list).unwrap()
}

fn policy(operator: &OperatorPolicy, session: &[Rule], mode: PermissionMode) -> Policy {
    let workspace = &[PathBuf::from("/srv/files")];
    let source =
        PolicySource { operator, session_rules: session, remembered: &[], mode, workspace };
    Policy::new(source).unwrap()
}

fn judged(case: &Case) -> Permission {
    let operator = OperatorPolicy {
        rules: case.operator.clone().into(),
        allows_bypass: true,
        ..Default::default()
    };
    let source = PolicySource {
        operator: &operator,
        session_rules: &case.session,
        remembered: &case.remembered,
        mode: case.mode,
        workspace: &[PathBuf::from("/srv/files")],
    };
    let policy = Policy::new(source).unwrap();
    policy.evaluate(&call(&case.tool, &case.input), class(&case.class)).permission
}

#[test]
fn rules_stop_every_attack_and_pass_every_control_case() {
    let cases: Vec<Case> = serde_json::from_str(ATTACKS).unwrap();
    let wrong: Vec<String> = cases
        .iter()
        .map(|case| (case, judged(case)))
        .filter(|(case, judged)| *judged != case.expected)
        .map(|(case, judged)| format!("{}: {judged:?}, not {:?}", case.name, case.expected))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let controls = cases.iter().filter(|case| case.is_control).count();
    assert!(cases.len() >= 100 && controls >= 10, "{} cases, {controls} controls", cases.len());
}

#[test]
fn a_denial_is_a_sentence_that_names_the_tool_the_rule_and_its_reason() {
    let session = rules(json!([
        { "tool": "Write", "decision": "deny", "reason": "Ask Ada first." },
        { "tool": "Ed*", "input": { "file_path": "docs/**" }, "decision": "deny" },
        { "tool": "Bash", "decision": "ask", "reason": "It costs money." },
    ]));
    let policy = policy(&OperatorPolicy::default(), &session, PermissionMode::AcceptEdits);
    let input = r#"{"file_path":"docs/a"}"#;
    let decision = |tool| policy.evaluate(&call(tool, input), ToolClass::Checkable);
    let ruled = |permission, reason: &str| PolicyDecision {
        permission,
        reason: Some(reason.to_owned()),
        is_by_mode: false,
    };
    let denied = |text: &str| ruled(Permission::Deny, text);
    assert_eq!(
        decision("Write"),
        denied(
            "This call of Write did not run: the permission rule for \"Write\" denies it. Ask Ada \
             first."
        )
    );
    assert_eq!(
        decision("Edit"),
        denied(
            "This call of Edit did not run: the permission rule for \"Ed*\" with file_path \
             \"docs/**\" denies it."
        )
    );
    assert_eq!(decision("Bash"), ruled(Permission::Ask, "It costs money."));
    assert_eq!(
        decision("MultiEdit"),
        PolicyDecision { permission: Permission::Allow, reason: None, is_by_mode: true }
    );
}

#[test]
fn each_mode_allows_its_tool_classes() {
    use Permission::{Allow, Ask, Deny};
    let classes = [ToolClass::Pure, ToolClass::Checkable, ToolClass::Effect, ToolClass::SubAgent];
    let operator = OperatorPolicy { allows_bypass: true, ..Default::default() };
    let judged = |mode| {
        let policy = policy(&operator, &[], mode);
        classes.map(|class| policy.evaluate(&call("tool", "{}"), class).permission)
    };
    assert_eq!(judged(PermissionMode::Default), [Allow, Ask, Ask, Allow]);
    assert_eq!(judged(PermissionMode::AcceptEdits), [Allow, Allow, Ask, Allow]);
    assert_eq!(judged(PermissionMode::Plan), [Allow, Deny, Deny, Deny]);
    assert_eq!(judged(PermissionMode::Bypass), [Allow; 4]);
}

#[test]
fn plan_mode_tells_the_model_to_submit_a_plan() {
    let policy = policy(&OperatorPolicy::default(), &[], PermissionMode::Plan);
    let decision = policy.evaluate(&call("Write", "{}"), ToolClass::Checkable);
    let reason = "Plan mode is on: Write can have side effects, which are not allowed before a \
        plan is approved. Use only tools that read, then call ExitPlanMode with your plan.";
    assert_eq!(
        decision,
        PolicyDecision {
            permission: Permission::Deny,
            reason: Some(reason.into()),
            is_by_mode: true
        }
    );
}

#[test]
fn a_mode_that_is_no_longer_permitted_becomes_the_default_mode() {
    let policy = policy(&OperatorPolicy::default(), &[], PermissionMode::Bypass);
    let decision = policy.evaluate(&call("Write", "{}"), ToolClass::Checkable);
    assert_eq!(decision.permission, Permission::Ask);
}

#[test]
fn the_mode_after_a_plan_is_never_plan_mode() {
    use PermissionMode::{AcceptEdits, Default as Careful, Plan};
    let after = |pinned, default_mode| {
        OperatorPolicy { default_mode, ..Default::default() }.mode_after_plan(pinned)
    };
    assert_eq!(after(Some(Careful), AcceptEdits), Careful);
    assert_eq!(after(Some(Plan), Careful), Careful);
    assert_eq!(after(None, Careful), Careful);
    assert_eq!(after(Some(Plan), Plan), AcceptEdits);
}

#[test]
fn an_error_names_the_invalid_rule() {
    let bad = |rule| {
        let list = rules(json!([{ "tool": "Read", "decision": "allow" }, rule]));
        check(&list).unwrap_err().to_string()
    };
    assert_eq!(
        bad(json!({ "tool": "", "decision": "allow" })),
        r#"rule 1, for "": the tool is empty"#
    );
    assert_eq!(
        bad(json!({ "tool": "Bash", "decision": "deny", "input": { "command": "a | b" } })),
        "rule 1, for \"Bash\": command does not consist of plain words: only letters, digits, \
         `-_./,:@%+=` and `*` are allowed"
    );
    assert_eq!(
        bad(json!({ "tool": "Read", "decision": "allow", "input": { "file_path": "/etc/*" } })),
        "rule 1, for \"Read\": file_path is absolute: paths are relative to the workspace"
    );
    assert_eq!(
        bad(json!({ "tool": "x", "decision": "allow", "input": { "a": "b\u{200b}" } })),
        "rule 1, for \"x\": a has an invisible character"
    );
}

#[test]
fn a_remembered_rule_allows_only_the_same_call() {
    let allows = |tool: &str, seen: &str, next: &str| {
        let rule = remember(&call(tool, seen))?;
        let policy = policy(&OperatorPolicy::default(), &[rule], PermissionMode::Default);
        Some(policy.evaluate(&call(tool, next), ToolClass::Effect).permission)
    };
    let push = r#"{"command":"git push origin"}"#;
    assert_eq!(allows("Bash", push, push), Some(Permission::Allow));
    assert_eq!(allows("Bash", push, r#"{"command":"git push evil"}"#), Some(Permission::Ask));
    let write = r#"{"file_path":"a.txt","content":"1"}"#;
    let other = r#"{"file_path":"b.txt","content":"1"}"#;
    assert_eq!(allows("Write", write, r#"{"file_path":"./a.txt"}"#), Some(Permission::Allow));
    assert_eq!(allows("Write", write, other), Some(Permission::Ask));
    assert_eq!(allows("mcp__x", r#"{"a":1}"#, r#"{"a":2}"#), Some(Permission::Allow));
}

#[test]
fn calls_that_no_pattern_can_express_are_not_remembered() {
    let inputs = [
        r#"{"command":"rm *"}"#,
        r#"{"command":"ls; rm x"}"#,
        r#"{"command":"ls","command":"rm x"}"#,
        r#"{"file_path":"*"}"#,
        r#"{"file_path":"../x"}"#,
        r#"{"command":["ls","rm x"]}"#,
        r#"{"command":null}"#,
    ];
    assert_eq!(inputs.map(|input| remember(&call("tool", input))), inputs.map(|_| None));
}

#[test]
fn a_visit_needs_an_approval_unless_its_url_is_known_and_few_links_were_followed() {
    use Permission::{Allow, Ask};
    let operator = OperatorPolicy { allows_bypass: true, ..Default::default() };
    let visit = |mode, verdict| {
        let policy = policy(&operator, &[], mode);
        policy.evaluate_visit(&call("WebFetch", "{}"), ToolClass::Pure, || verdict)
    };
    let verdicts = [UrlVerdict::Known, UrlVerdict::ModelOnly, UrlVerdict::TooManyLinks { max: 7 }];
    for (mode, expected) in [
        (PermissionMode::Default, [Allow, Ask, Ask]),
        (PermissionMode::Plan, [Allow, Ask, Ask]),
        (PermissionMode::Bypass, [Allow; 3]),
    ] {
        assert_eq!(verdicts.map(|verdict| visit(mode, verdict).permission), expected, "{mode:?}");
    }
    let limited = visit(PermissionMode::Default, UrlVerdict::TooManyLinks { max: 7 });
    assert!(limited.is_by_mode && limited.reason.unwrap().ends_with("without an approval (7)"));
}
