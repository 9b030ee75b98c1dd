//! The settings of a session that follow from its model, and that can change after its creation.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::model::Effort;
use super::price::Price;
use super::session::Settings;
use super::tool::defined_name;

/// The settings in place of those that were pinned: the choice of a client, and all that follows from
/// the model. They are complete: a member that is absent has no value.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelSettings {
    /// The model's name.
    pub model: String,
    /// The provider of the model; none for the default provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub provider: Option<Box<str>>,
    /// The effort of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The thinking setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub thinking: Option<Box<RawValue>>,
    /// The price of the model's tokens, if the operator configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Number of input tokens from which the history is compacted before the first request of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_at: Option<i64>,
    /// Maximum output budget of a summary, for models with a small one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_max_tokens: Option<u32>,
    /// The definitions of the server tools whose versions the model does not share with the pinned
    /// model. They replace the definitions of the same names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub server_tools: Vec<Box<RawValue>>,
    /// True if the session has deferred tools and the model supports tool search.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tool_search: bool,
}

/// The text decides, as for all pinned settings.
impl PartialEq for ModelSettings {
    fn eq(&self, other: &Self) -> bool {
        serde_json::to_string(self).ok() == serde_json::to_string(other).ok()
    }
}

impl Eq for ModelSettings {}

impl Settings {
    /// Returns the present settings that follow from the model. Server tools are as they are.
    pub fn model_settings(&self) -> ModelSettings {
        ModelSettings {
            model: self.model.clone(),
            provider: self.provider.clone(),
            effort: self.model_options.effort,
            thinking: self.thinking.clone(),
            price: self.price,
            compact_at: self.context.compact_at,
            compact_max_tokens: self.context.compact_max_tokens,
            server_tools: Vec::new(),
            tool_search: self.deferred_tools.as_ref().is_some_and(|tools| tools.by_reference),
        }
    }

    /// Replaces the settings that follow from the model.
    pub fn set_model(&mut self, new: &ModelSettings) {
        self.model.clone_from(&new.model);
        self.provider.clone_from(&new.provider);
        self.model_options.effort = new.effort;
        self.thinking.clone_from(&new.thinking);
        self.price = new.price;
        self.context.compact_at = new.compact_at;
        self.context.compact_max_tokens = new.compact_max_tokens;
        self.set_tool_search(new.tool_search);
        if !new.server_tools.is_empty() {
            self.replace_tools(&new.server_tools);
        }
    }

    /// Replaces the definitions of tools by those of the same names. The others stay as they are, byte
    /// for byte.
    fn replace_tools(&mut self, new: &[Box<RawValue>]) {
        let Ok(pinned) = serde_json::from_str::<Vec<&RawValue>>(self.tools.get()) else { return };
        let named = |pinned: &RawValue| {
            let name = defined_name(pinned)?;
            new.iter().find(|tool| defined_name(tool).as_deref() == Some(&*name))
        };
        let tools: Vec<&RawValue> =
            pinned.into_iter().map(|tool| named(tool).map_or(tool, |new| &**new)).collect();
        if let Ok(tools) = to_raw_value(&tools) {
            self.tools = tools;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tools_of_the_same_names_are_replaced() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let own = r#"{"name":"read_file",  "description":"d"}"#;
        let old = r#"{"type":"web_search_20260318","name":"web_search"}"#;
        let new = r#"{"type":"web_search_20250305","name":"web_search"}"#;
        let mut settings =
            Settings { tools: raw(&format!("[{own},{old}]")), ..Settings::default() };
        let changed = ModelSettings {
            model: "m".to_owned(),
            server_tools: vec![raw(new)],
            ..settings.model_settings()
        };
        settings.set_model(&changed);
        assert_eq!((settings.tools.get(), &*settings.model), (&*format!("[{own},{new}]"), "m"));
    }
}
