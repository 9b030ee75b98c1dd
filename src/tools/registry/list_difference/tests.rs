//! Tests of the differences between a session's stored tools and a server's current tools.

use super::super::served::tests::{registry, tool};
use super::*;

/// Returns the settings of a session with these tools of the registry.
fn settings(registry: &Registry, names: &[&str]) -> Settings {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let tools = registry.definitions(Some(&names)).unwrap();
    let offered_tools = registry.tools_of_same_servers(&tools);
    Settings { tools, offered_tools, ..Settings::default() }
}

fn only(registry: &Registry, settings: &Settings) -> ServerDifference {
    let [difference] = &registry.differences(settings)[..] else { panic!("not one server") };
    difference.clone()
}

#[test]
fn a_changed_server_list_differs_from_the_stored_tools() {
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
fn only_tools_that_were_not_offered_at_creation_are_new() {
    let registry = registry();
    registry.serve("s", vec![tool::<1>()]).unwrap();
    let young = settings(&registry, &["mcp__s__b"]);
    registry.serve("s", vec![tool::<0>(), tool::<1>()]).unwrap();
    let added = vec!["mcp__s__a".to_owned()];
    let changes = ListChanges { added, ..ListChanges::default() };
    assert_eq!(only(&registry, &young).changes, changes);
    let picky = settings(&registry, &["mcp__s__b"]);
    assert_eq!(only(&registry, &picky).hash, None);
    // A tool that was offered at creation and not chosen is not new.
    registry.serve("s", vec![tool::<1>()]).unwrap();
    assert_eq!(only(&registry, &picky).hash, None);
}

#[test]
fn a_second_change_of_a_tool_changes_the_hash() {
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
fn a_session_without_server_tools_has_no_differences() {
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
fn changed_lists_are_counted() {
    let registry = registry();
    assert_eq!(registry.list_updates(), 0);
    registry.serve("s", vec![tool::<0>()]).unwrap();
    assert_eq!(registry.list_updates(), 1);
    registry.serve("s", vec![tool::<0>()]).unwrap();
    assert_eq!(registry.list_updates(), 1);
    registry.serve("s", vec![tool::<1>()]).unwrap();
    assert_eq!(registry.list_updates(), 2);
}
