//! The deferred tools among those that a session has pinned.

use serde_json::value::RawValue;

use super::deferred_tools::{DeferredDefinition, SplitDefinitions, TOOL_SEARCH};
use super::session::Settings;
use super::tool::defined_name;

impl Settings {
    /// Returns `true` if a tool is deferred.
    pub fn is_deferred(&self, name: &str) -> bool {
        self.deferred_tools
            .as_ref()
            .is_some_and(|deferred| deferred.names.iter().any(|deferred| deferred == name))
    }

    /// Returns `true` if the tool is the `ToolSearch` of the service, which the session has if and only
    /// if it has deferred tools.
    pub fn is_tool_search(&self, name: &str) -> bool {
        name == TOOL_SEARCH && self.deferred_tools.is_some()
    }

    /// Splits the pinned definitions, each part in their order.
    pub fn split_definitions(&self) -> serde_json::Result<SplitDefinitions<'_>> {
        let pinned: Vec<&RawValue> = serde_json::from_str(self.tools.get())?;
        let (mut loaded, mut deferred) = (Vec::with_capacity(pinned.len()), Vec::new());
        for json in pinned {
            match defined_name(json).filter(|name| self.is_deferred(name)) {
                Some(name) => deferred.push(DeferredDefinition { name, json: json.to_owned() }),
                None => loaded.push(json),
            }
        }
        Ok(SplitDefinitions { loaded, deferred })
    }

    /// Sets whether the model supports tool search.
    pub fn set_tool_search(&mut self, by_reference: bool) {
        if let Some(deferred) = &mut self.deferred_tools {
            deferred.by_reference = by_reference;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::deferred_tools::DeferredTools;

    #[test]
    fn definitions_are_split_in_their_order() {
        let tools =
            r#"[{"name":"a"},{"name": "b"},{"name":"c"},{"type":"web_search_1","name":"d"}]"#;
        let deferred = DeferredTools { names: vec!["b".into(), "a".into()], by_reference: false };
        let settings = Settings {
            tools: RawValue::from_string(tools.to_owned()).unwrap(),
            deferred_tools: Some(Box::new(deferred)),
            ..Settings::default()
        };
        let SplitDefinitions { loaded, deferred } = settings.split_definitions().unwrap();
        let loaded: Vec<&str> = loaded.iter().map(|json| json.get()).collect();
        assert_eq!(loaded, [r#"{"name":"c"}"#, r#"{"type":"web_search_1","name":"d"}"#]);
        let deferred: Vec<&str> = deferred.iter().map(|tool| tool.json.get()).collect();
        assert_eq!(deferred, [r#"{"name":"a"}"#, r#"{"name": "b"}"#]);
        assert!(settings.is_tool_search(TOOL_SEARCH) && !settings.is_tool_search("a"));
        assert!(!Settings::default().is_tool_search(TOOL_SEARCH));
    }
}
