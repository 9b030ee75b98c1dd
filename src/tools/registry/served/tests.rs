//! Lists of servers come and go, and what is gone is never taken for harmless.

use super::*;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::{Output, ToolContext, ToolError, Typed, TypedTool};

/// Tools that only read; the last two have one name.
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
fn a_list_takes_the_place_of_the_one_before_and_it_is_told_how_they_differ() {
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
fn a_list_with_a_name_twice_changes_nothing() {
    let registry = registry();
    registry.serve("s", vec![tool::<0>()]).unwrap();
    let refused = registry.serve("s", vec![tool::<1>(), tool::<2>()]);
    assert!(matches!(refused, Err(BadTool::Repeated(name)) if name == "mcp__s__b"));
    let names = registry.catalog().into_iter().map(|entry| entry.name);
    assert_eq!(names.collect::<Vec<_>>(), ["mcp__s__a"]);
}

#[test]
fn a_tool_that_a_server_may_come_back_with_is_one_with_effects() {
    let registry = registry();
    let classes = |registry: &Registry| {
        ["mcp__s__a", "mcp__other__a", "a"].map(|name| {
            (registry.class(name), registry.runs_in_parallel(name), registry.absent(name))
        })
    };
    let gone = "Error: the tool server s does not offer mcp__s__a now".to_owned();
    let unknown = (ToolClass::Pure, true, None);
    let expected = [(ToolClass::Effect, false, Some(gone)), unknown.clone(), unknown.clone()];
    assert_eq!(classes(&registry), expected);
    registry.serve("s", vec![tool::<0>()]).unwrap();
    assert_eq!(classes(&registry), [unknown.clone(), unknown.clone(), unknown]);
}
