//! What a session has stays, and it is found out what a server would give it now.

use super::super::served::tests::{registry, tool};
use super::*;

/// A session that has these tools of those that there are.
fn settings(registry: &Registry, names: &[&str]) -> Settings {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let tools = registry.definitions(Some(&names)).unwrap();
    let offered_tools = registry.offered_beside(&tools);
    Settings { tools, offered_tools, ..Settings::default() }
}

fn only(registry: &Registry, settings: &Settings) -> ServerDifference {
    let [difference] = &registry.differences(settings)[..] else { panic!("not one server") };
    difference.clone()
}

#[test]
fn a_session_has_what_its_server_offers_until_the_server_offers_something_else() {
    let registry = registry();
    registry.serve("s", vec![tool::<0>(), tool::<1>()]).unwrap();
    let both = settings(&registry, &["mcp__s__a", "mcp__s__b"]);
    assert_eq!(both.offered_tools, ["mcp__s__a", "mcp__s__b"]);
    let same = only(&registry, &both);
    assert!(same.hash.is_none() && !same.changes.are_any(), "{same:?}");

    registry.serve("s", vec![tool::<2>()]).unwrap();
    let other = only(&registry, &both);
    let names = |name: &str| vec![name.to_owned()];
    let (removed, altered) = (names("mcp__s__a"), names("mcp__s__b"));
    assert_eq!(other.changes, ListChanges { removed, altered, ..ListChanges::default() });
    registry.serve("s", vec![tool::<0>(), tool::<1>()]).unwrap();
    assert_eq!(only(&registry, &both), same);
}

#[test]
fn a_tool_is_new_only_if_the_session_could_not_have_had_it() {
    let registry = registry();
    registry.serve("s", vec![tool::<1>()]).unwrap();
    let young = settings(&registry, &["mcp__s__b"]);
    registry.serve("s", vec![tool::<0>(), tool::<1>()]).unwrap();
    let added = vec!["mcp__s__a".to_owned()];
    let changes = ListChanges { added, ..ListChanges::default() };
    assert_eq!(only(&registry, &young).changes, changes);
    let picky = settings(&registry, &["mcp__s__b"]);
    assert_eq!(only(&registry, &picky).hash, None);
    // What it did not want is nothing to it.
    registry.serve("s", vec![tool::<1>()]).unwrap();
    assert_eq!(only(&registry, &picky).hash, None);
}

#[test]
fn a_second_change_of_one_tool_is_another_difference() {
    let registry = registry();
    registry.serve("s", vec![tool::<2>()]).unwrap();
    let session = settings(&registry, &["mcp__s__b"]);
    registry.serve("s", vec![tool::<1>()]).unwrap();
    let first = only(&registry, &session);
    let earlier = settings(&registry, &["mcp__s__b"]);
    registry.serve("s", vec![tool::<2>()]).unwrap();
    let second = only(&registry, &earlier);
    assert_eq!(first.changes, second.changes);
    assert_ne!(first.hash, second.hash);
}

#[test]
fn a_session_without_tools_of_servers_is_told_nothing() {
    let registry = registry();
    registry.serve("s", vec![tool::<0>()]).unwrap();
    let session = settings(&registry, &[]);
    assert_eq!(session.offered_tools, Vec::<String>::new());
    assert_eq!(registry.differences(&session), []);
    let clients = r#"[{"name":"mcp__s__a","input_schema":{"type":"object"}}]"#;
    let tools = RawValue::from_string(clients.into()).unwrap();
    let client_tools = vec!["mcp__s__a".to_owned()];
    let session = Settings { tools, client_tools, ..Settings::default() };
    assert_eq!(registry.differences(&session), []);
}

#[test]
fn lists_that_change_are_counted() {
    let registry = registry();
    assert_eq!(registry.lists_told(), 0);
    registry.serve("s", vec![tool::<0>()]).unwrap();
    assert_eq!(registry.lists_told(), 1);
    registry.serve("s", vec![tool::<0>()]).unwrap();
    assert_eq!(registry.lists_told(), 1);
    registry.serve("s", vec![tool::<1>()]).unwrap();
    assert_eq!(registry.lists_told(), 2);
}
