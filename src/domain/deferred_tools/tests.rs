use serde_json::json;

use super::*;

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n:04}")).collect()
}

fn description(names: &[String]) -> String {
    let base = to_raw_value(&json!({ "name": TOOL_SEARCH, "description": "Finds." })).unwrap();
    let listed = with_listing(&base, names).unwrap();
    // The list replaces an earlier one.
    let again = with_listing(&listed, names).unwrap();
    assert_eq!(again.get(), listed.get());
    let listed: Value = serde_json::from_str(listed.get()).unwrap();
    listed["description"].as_str().unwrap().to_owned()
}

#[test]
fn the_description_lists_the_deferred_tools_by_server() {
    let names = ["mcp__b__get", "Grep", "mcp__a_b__x__y", "mcp__b__set"].map(str::to_owned);
    let expected = "Finds.\n\nThe deferred tools:\n- Grep\n- mcp__a_b__*: x__y\n\
                    - mcp__b__*: get, set";
    assert_eq!(description(&names), expected);
}

#[test]
fn the_list_is_bounded_and_says_what_it_leaves_out() {
    let many = description(&names("mcp__library__a_tool_with_a_long_name_", 300));
    assert!(many.len() < MAX_LISTING + 200, "{}", many.len());
    assert!(many.ends_with(" more"), "{many}");
    let servers: Vec<String> = (0..2000).map(|n| format!("mcp__server_{n:04}__get")).collect();
    let listed = description(&servers);
    assert!(listed.contains("\n- mcp__server_0000__*: 1 tool\n"), "{listed}");
    assert!(listed.len() < MAX_LISTING + 200, "{}", listed.len());
    assert!(listed.ends_with(" more servers"), "{listed}");
}
