//! Tests of the built-in agents, of agent files, and of filling a request from a profile.

use std::fs;

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use utoipa::PartialSchema as _;

use super::profile::AgentProfile;
use super::shared::{BadAgentFile, all};
use super::shared_agent::OperatorAgents;
use crate::domain::agent::AgentSource;
use crate::service::json::parse;
use crate::service::session_settings::CreateSession;

fn profile(members: &Value) -> AgentProfile {
    parse(members.to_string().as_bytes()).unwrap()
}

fn session(members: &Value) -> CreateSession {
    parse(members.to_string().as_bytes()).unwrap()
}

/// Two values for every member that a session and an agent both have.
fn members() -> Vec<(&'static str, Value, Value)> {
    let edit = |name: &str| json!([{ "type": name }]);
    let rule = |tool: &str| json!([{ "tool": tool, "decision": "deny" }]);
    vec![
        ("/model", json!("one"), json!("two")),
        ("/max_tokens", json!(1), json!(2)),
        ("/system", json!("one"), json!([{ "type": "text", "text": "two" }])),
        ("/tools", json!([]), json!(["two"])),
        ("/deferred_tools", json!([]), json!(["two*"])),
        ("/thinking", json!({ "type": "one" }), json!({ "type": "two" })),
        ("/stop_sequences", json!([]), json!(["two"])),
        ("/interrupted_replies", json!("discard"), json!("keep")),
        ("/generate_title", json!(true), json!(false)),
        ("/fallback_models", json!(["b"]), json!(["c"])),
        ("/temperature", json!(0.5), json!(1.0)),
        ("/top_p", json!(0.5), json!(0.75)),
        ("/top_k", json!(1), json!(2)),
        ("/seed", json!(1), json!(2)),
        ("/extra_body", json!({ "a": 1 }), json!({ "a": 2 })),
        ("/effort", json!("low"), json!("high")),
        ("/service_tier", json!("auto"), json!("standard_only")),
        ("/output_schema", json!({ "type": "object" }), json!({ "type": "array" })),
        ("/betas", json!([]), json!(["two"])),
        ("/tool_choice", json!({ "type": "any" }), json!({ "type": "tool", "name": "LS" })),
        ("/context/edits", json!([]), edit("clear_tool_uses_20250919")),
        ("/context/compact_at", json!(0), json!(2000)),
        ("/context/compact_instructions", json!("one"), json!("two")),
        ("/limits/rounds", json!(0), json!(2)),
        ("/limits/tokens", json!(1), json!(2)),
        ("/limits/cost", json!(1), json!(2)),
        ("/limits/seconds", json!(1), json!(2)),
        ("/budget/tokens", json!(1), json!(2)),
        ("/budget/cost", json!(1), json!(2)),
        ("/permission_mode", json!("plan"), json!("default")),
        ("/permissions", json!([]), rule("two")),
        ("/sub_agents", json!([]), json!([{ "name": "two", "description": "Two." }])),
    ]
}

/// An object with these values at these pointers.
fn object<'a>(values: impl Iterator<Item = (&'a str, Value)>) -> Value {
    let mut object = Map::new();
    for (pointer, value) in values {
        match pointer.trim_start_matches('/').split_once('/') {
            None => {
                object.insert(pointer.trim_start_matches('/').to_owned(), value);
            }
            Some((outer, inner)) => {
                let members = object.entry(outer).or_insert_with(|| json!({}));
                members[inner] = value;
            }
        }
    }
    object.into()
}

/// All members of a request, in a form that can be compared.
fn shown(session: &CreateSession) -> String {
    format!("{session:?}")
}

/// Each member is set by the session, the agent, both or neither, in a thousand pseudo-random
/// combinations.
#[test]
fn members_of_a_session_take_precedence_over_those_of_its_agent() {
    let members = members();
    let mut random = 1_u64;
    for _ in 0..1000 {
        let mut owners = members.iter().map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 62
        });
        let owners: Vec<u64> = owners.by_ref().collect();
        let of = |is_wanted: fn(u64) -> bool, second: fn(u64) -> bool| {
            let chosen = members.iter().zip(&owners).filter(move |(_, owner)| is_wanted(**owner));
            object(chosen.map(move |((pointer, one, two), owner)| {
                (*pointer, if second(*owner) { two.clone() } else { one.clone() })
            }))
        };
        let mut filled = session(&of(|owner| owner & 1 > 0, |_| false));
        let inherited = profile(&of(|owner| owner & 2 > 0, |_| true)).fill(&mut filled);
        let expected = session(&of(|owner| owner > 0, |owner| owner == 2));
        assert_eq!(shown(&filled), shown(&expected), "{owners:?}");
        for ((pointer, ..), owner) in members.iter().zip(&owners) {
            assert_eq!(inherited.has(pointer), *owner == 2, "{pointer} {owners:?}");
            assert_eq!(inherited.has(&format!("{pointer}/0")), *owner == 2, "{pointer} {owners:?}");
            assert!(!inherited.has(&format!("{pointer}s")), "{pointer}");
        }
    }
}

#[test]
fn every_member_of_a_profile_except_its_own_names_and_metadata_is_a_member_of_a_session() {
    let mut all = object(members().into_iter().map(|(pointer, _, two)| (pointer, two)));
    let text = profile(&all).text().unwrap();
    let read: Value = serde_json::from_str(text.get()).unwrap();
    assert_eq!(read, all, "the profile is stored unchanged");
    let schema = serde_json::to_value(AgentProfile::schema()).unwrap();
    let schema = &schema["properties"];
    for own in ["description", "display_name", "metadata"] {
        all[own] = json!("What for.");
    }
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut expected = names(&all);
    expected.sort();
    let mut documented = names(schema);
    documented.sort();
    assert_eq!(documented, expected);
}

#[test]
fn a_profile_without_values_is_stored_as_an_empty_object() {
    let empty = json!({ "model": null, "limits": {}, "context": {}, "budget": {} });
    assert_eq!(profile(&empty).text().unwrap().get(), "{}");
}

#[test]
fn the_order_of_the_members_of_a_schema_is_preserved() {
    let text = r#"{"output_schema":{"b":1,"a":{"d":2, "c":3}}}"#;
    let profile: AgentProfile = parse(text.as_bytes()).unwrap();
    assert_eq!(profile.text().unwrap().get(), text);
}

#[test]
fn the_service_has_built_in_agents() {
    let operators = OperatorAgents::default();
    let all: Vec<_> = all(&operators).collect();
    let versions: Vec<(&str, i32)> =
        all.iter().map(|(name, agent)| (name.as_str(), agent.version)).collect();
    let expected = [("coder", 1), ("course", 1), ("general", 1), ("researcher", 2), ("weather", 2)];
    assert_eq!(versions, expected);
    for (name, agent) in all {
        assert_eq!(agent.source, AgentSource::Builtin, "{name}");
        assert!(agent.description.as_ref().unwrap().ends_with('.'), "{name}");
        let members: Value = serde_json::from_str(agent.profile.get()).unwrap();
        assert!(members["system"].as_str().unwrap().len() > 500, "{name}");
        assert!(!members["tools"].as_array().unwrap().is_empty(), "{name}");
        // Built-in agents work with any model.
        assert_eq!(members.get("model"), None, "{name}");
    }
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn agents_are_read_from_a_folder_with_prompts_and_versions() {
    let files = [
        ("desk.json", r#"{"version": 4, "description": "The desk.", "model": "m"}"#),
        ("desk.md", "You are the desk.\n"),
        ("plain.json", r#"{"system": "Be plain."}"#),
        ("coder.json", "{}"),
        (".hidden", "not read"),
    ];
    let folder = folder(&files);
    let agents = OperatorAgents::read(folder.path()).unwrap();
    let all: Vec<_> = all(&agents)
        .map(|(name, agent)| (name.as_str(), agent.source, agent.version, agent.profile.get()))
        .filter(|(_, source, ..)| *source == AgentSource::Operator)
        .collect();
    let desk = r#"{"description":"The desk.","model":"m","system":"You are the desk."}"#;
    let of = AgentSource::Operator;
    let expected = [
        ("coder", of, 1, "{}"),
        ("desk", of, 4, desk),
        ("plain", of, 1, r#"{"system":"Be plain."}"#),
    ];
    assert_eq!(all, expected);
}

#[test]
fn an_invalid_file_is_reported_with_its_member() {
    let large = format!(r#"{{"system": "{}"}}"#, "x".repeat(300_000));
    for (files, expected) in [
        (
            &[("a.json", r#"{"colour": 1}"#)][..],
            "a.json is not valid: /colour is not a known member; allowed: ",
        ),
        (&[("a.json", r#"{"limits": {"rounds": "2"}}"#)], "a.json is not valid: /limits/rounds "),
        (&[("a.json", r#"{"version": 0}"#)], "a.json is not valid: /version is not a whole number"),
        (&[("a.json", r#"{"version": "2"}"#)], "a.json is not valid: /version is not"),
        (
            &[("a.json", "{")],
            "a.json is not valid: it is not JSON: line 1, column 1: the text ends inside an object",
        ),
        (&[("a.json", "[]")], "a.json is not valid: is an array; an object is required"),
        (&[("a.json", &large)], "a.json is not valid: it is larger than 262144 bytes"),
        (&[("a.json", r#"{"title": "x"}"#)], "a.json is not valid: /title is not a known member"),
        (&[("A.json", "{}")], "A.json does not name an agent: \"A\" is not 1 to 64 of"),
        (&[("a.yaml", "")], "a.yaml is neither the .json of an agent nor the .md of an agent"),
        (&[("a.md", "Hello.")], "a.md is neither the .json of an agent nor the .md of an agent"),
        (
            &[("a.json", r#"{"system": "one"}"#), ("a.md", "two")],
            "a.json is not valid: /system is also in a file of its own",
        ),
    ] {
        let folder = folder(files);
        let error = OperatorAgents::read(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let nowhere = TempDir::new().unwrap().path().join("nowhere");
    assert!(matches!(OperatorAgents::read(&nowhere), Err(BadAgentFile::Folder(_))));
}
