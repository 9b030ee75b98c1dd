//! Tests of changing server lists. A tool that is unavailable is never treated as harmless.

use super::*;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::{Typed, TypedTool};

/// Read-only tools; the last two have the same name.
#[derive(Debug)]
struct Served<const INDEX: usize>;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl<const INDEX: usize> TypedTool for Served<INDEX> {
    const NAME: &'static str = ["mcp__s__a", "mcp__s__b", "mcp__s__b"][INDEX];
    const DESCRIPTION: &'static str = ["It is a.", "It is b.", "It is another b."][INDEX];
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Network;
    type Input = Nothing;

    async fn run(&self, _context: &ToolContext, _input: Nothing) -> Result<Output, ToolError> {
        Ok(Self::DESCRIPTION.to_owned().into())
    }
}

pub(in crate::tools::registry) fn tool<const INDEX: usize>() -> Arc<dyn Tool> {
    Arc::new(Typed(Served::<INDEX>))
}

pub(in crate::tools::registry) fn registry() -> Registry {
    let registry = Registry::new(Vec::new()).unwrap();
    registry.expect_server("s");
    registry
}

#[test]
fn a_new_list_replaces_the_old_one_and_the_changes_are_returned() {
    let registry = registry();
    assert_eq!(registry.serve("s", vec![tool::<0>(), tool::<1>()]).unwrap(), None);
    let same = registry.serve("s", vec![tool::<1>(), tool::<0>()]).unwrap().unwrap();
    assert!(!same.are_any(), "{same:?}");
    let changes = registry.serve("s", vec![tool::<2>()]).unwrap().unwrap();
    let name = |name: &str| vec![name.to_owned()];
    let (removed, altered) = (name("mcp__s__a"), name("mcp__s__b"));
    assert_eq!(changes, ListChanges { added: Vec::new(), removed, altered });
    let changes = registry.serve("s", vec![tool::<0>(), tool::<2>()]).unwrap().unwrap();
    assert_eq!(changes, ListChanges { added: name("mcp__s__a"), ..ListChanges::default() });
}

#[test]
fn a_list_with_a_repeated_name_is_rejected() {
    let registry = registry();
    registry.serve("s", vec![tool::<0>()]).unwrap();
    let refused = registry.serve("s", vec![tool::<1>(), tool::<2>()]);
    assert!(matches!(refused, Err(BadTool::Repeated(name)) if name == "mcp__s__b"));
    let names = registry.catalog().into_iter().map(|entry| entry.name);
    assert_eq!(names.collect::<Vec<_>>(), ["mcp__s__a"]);
}

#[test]
fn an_unavailable_server_tool_counts_as_a_tool_with_effects() {
    let registry = registry();
    let classes = |registry: &Registry| {
        ["mcp__s__a", "mcp__other__a", "a"].map(|name| {
            (
                registry.class(name),
                registry.runs_in_parallel(name),
                registry.unavailable_reason(name),
            )
        })
    };
    let gone = "Error: the tool server s does not offer mcp__s__a now".to_owned();
    let unknown = (ToolClass::Pure, true, None);
    let expected = [(ToolClass::Effect, false, Some(gone)), unknown.clone(), unknown.clone()];
    assert_eq!(classes(&registry), expected);
    registry.serve("s", vec![tool::<0>()]).unwrap();
    assert_eq!(classes(&registry), [unknown.clone(), unknown.clone(), unknown]);
}
