//! Tests of the attributes and the input schemas of the built-in tools.

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;

use super::*;
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::ToolClass::{self, Checkable, Effect, Pure, SubAgent};
use crate::domain::tool::ToolTiming::{self, Fast, Immediate, Network, Variable};
use crate::outbound::AllowedHosts;
use crate::tools::builtin::bash::Bash;
use crate::tools::registry::{CatalogEntry, Registry};
use sandbox::{Sandbox, Setting};

/// The name, the class of side effects, the usual duration, the deadline in seconds, and whether
/// calls run concurrently.
const TABLE: [(&str, ToolClass, ToolTiming, u64, bool); 27] = [
    ("read_file", Pure, Fast, 10, true),
    ("write_file", Checkable, Fast, 10, false),
    ("list_files", Pure, Fast, 10, true),
    ("get_time", Pure, Immediate, 2, true),
    ("LS", Pure, Immediate, 10, true),
    ("Read", Pure, Immediate, 10, true),
    ("Edit", Checkable, Variable, 120, false),
    ("MultiEdit", Checkable, Variable, 120, false),
    ("Write", Checkable, Fast, 10, false),
    ("NotebookEdit", Checkable, Fast, 10, false),
    ("Glob", Pure, Fast, 10, true),
    ("Grep", Pure, Fast, 10, true),
    ("TodoWrite", Pure, Immediate, 2, false),
    ("ExitPlanMode", Pure, Immediate, 2, false),
    ("Task", SubAgent, Variable, 120, false),
    ("sequential_thinking", Pure, Immediate, 2, true),
    ("get_current_user", Pure, Fast, 10, true),
    ("paraphrase_query", Pure, Network, 60, true),
    ("search_course_content", Pure, Fast, 10, true),
    ("get_course_outline", Pure, Fast, 10, true),
    ("Bash", Effect, Variable, 120, false),
    ("get_weather", Pure, Network, 60, true),
    ("get_temperature", Pure, Network, 60, true),
    ("search_records", Pure, Network, 60, true),
    ("WebFetch", Pure, Network, 60, true),
    ("WebSearch", Pure, Network, 60, true),
    ("web_search", Pure, Network, 60, true),
];

static CATALOG: LazyLock<Vec<CatalogEntry>> = LazyLock::new(|| REGISTRY.catalog());

/// All built-in tools.
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    // Another test of the same process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let nowhere = "http://127.0.0.1:9".parse().unwrap();
    let weather = OpenMeteo::new(&nowhere, &nowhere).unwrap();
    let records = Records::new(PgConnectOptions::new(), "records".to_owned(), None);
    let bash =
        Sandbox::new(Setting::Auto).map(|sandbox| Bash::new(sandbox, Duration::from_mins(2)));
    let (weather, records) = (Some(Arc::new(weather)), Some(Arc::new(records)));
    let web = Some(Arc::new(Web::new(AllowedHosts::default()).unwrap()));
    let search = Some(Arc::new(Search::new(SearchProvider::Searxng(nowhere)).unwrap()));
    let options = Options { bash, weather, records, web, search, ..Options::default() };
    Registry::new(all(&options)).unwrap()
});

#[test]
fn the_table_lists_every_tool_with_its_attributes() {
    let entry = |entry: &CatalogEntry| {
        let CatalogEntry { name, class, timing, deadline_ms, parallel, .. } = entry;
        (name.clone(), *class, *timing, *deadline_ms, *parallel)
    };
    let table = TABLE.map(|(name, class, timing, seconds, parallel)| {
        (name.to_owned(), class, timing, seconds * 1000, parallel)
    });
    assert_eq!(CATALOG.iter().map(entry).collect::<Vec<_>>(), table);
}

#[test]
fn the_origin_of_results_is_known_for_every_tool() {
    let tools_of = |origin: ResultOrigin| -> Vec<&str> {
        let names = TABLE.map(|(name, ..)| name).into_iter();
        names.filter(|name| REGISTRY.result_origin(name, RawValue::NULL) == Some(origin)).collect()
    };
    let pages = ["get_weather", "get_temperature", "WebFetch", "WebSearch", "web_search"];
    assert_eq!(tools_of(ResultOrigin::PublicWeb), pages);
    let services =
        ["get_current_user", "search_course_content", "get_course_outline", "search_records"];
    assert_eq!(tools_of(ResultOrigin::Service), services);
    assert_eq!(tools_of(ResultOrigin::Directed), ["Task", "Bash"]);
    let models =
        ["get_time", "TodoWrite", "ExitPlanMode", "sequential_thinking", "paraphrase_query"];
    assert_eq!(tools_of(ResultOrigin::Model), models);
    assert_eq!(tools_of(ResultOrigin::Workspace).len(), 11);
}

#[test]
fn a_page_of_a_listed_host_is_private_if_public_pages_are_allowed_too() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let origin = |hosts: &[&str], url: &str| {
        let web = Web::new(AllowedHosts::parse(hosts.iter().copied()).unwrap()).unwrap();
        let options = Options { web: Some(Arc::new(web)), ..Options::default() };
        let registry = Registry::new(all(&options)).unwrap();
        let input = to_raw_value(&json!({ "url": url })).unwrap();
        registry.result_origin("WebFetch", &input).unwrap()
    };
    let mixed = ["public", "wiki.internal"];
    assert_eq!(origin(&mixed, "http://wiki.internal/a#b"), ResultOrigin::Service);
    assert_eq!(origin(&mixed, "https://example.com/a"), ResultOrigin::PublicWeb);
    assert_eq!(origin(&["wiki.internal"], "http://wiki.internal/a"), ResultOrigin::PublicWeb);
}

/// Returns the input schema of a tool.
fn schema(name: &str) -> &Value {
    &CATALOG.iter().find(|entry| entry.name == name).unwrap().input_schema
}

#[test]
fn the_schema_of_a_function_without_parameters_is_that_of_its_type() {
    assert_eq!(
        schema("get_current_user"),
        &json!({
            "description": "No input.",
            "type": "object",
            "additionalProperties": false,
        })
    );
}

#[test]
fn the_schema_of_a_function_of_one_parameter_is_that_of_its_type() {
    assert_eq!(
        schema("get_temperature"),
        &json!({
            "description": "A city.",
            "type": "object",
            "properties": { "city": { "description": "The city's name.", "type": "string" } },
            "additionalProperties": false,
            "required": ["city"],
        })
    );
}

#[test]
fn the_schema_of_a_function_of_two_parameters_has_their_defaults_and_bounds() {
    assert_eq!(
        schema("search_records"),
        &json!({
            "description": "A search of records.",
            "type": "object",
            "properties": {
                "query": {
                    "description": "Words that a record must contain, all of them, in any of its \
                        columns. Upper and lower case\nare equal.",
                    "type": "string",
                },
                "limit": {
                    "description": "The maximum number of records to return.",
                    "type": "integer",
                    "format": "uint8",
                    "minimum": 1,
                    "maximum": 100,
                    "default": 10,
                },
            },
            "additionalProperties": false,
            "required": ["query"],
        })
    );
}

#[test]
fn the_schema_of_a_choice_lists_what_may_be_chosen() {
    assert_eq!(
        schema("get_weather")["properties"]["unit"],
        json!({
            "description": "The scale of the temperature.",
            "type": "string",
            "enum": ["celsius", "fahrenheit"],
            "default": "celsius",
        })
    );
}
