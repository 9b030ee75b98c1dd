//! The models that answer while the model of a session is unavailable.

use serde::{Deserialize, Serialize};

use super::generation::Generation;
use super::price::Price;
use super::session::Settings;

/// A model that answers while the models before it are unavailable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackModel {
    /// The model's name, as in [`Settings::model`].
    pub model: String,
    /// The name of the model's provider; none for the default provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Box<str>>,
    /// The price of the model's tokens, if the operator configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The model's own limit of the output budget, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// True if the thinking, the effort and the parameters of generation of the session are left out,
    /// because the model does not accept them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_plain: bool,
    /// True if the model supports tool search, for sessions with deferred tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tool_search: bool,
}

impl Settings {
    /// Returns the names of the fallback models, in their order.
    pub fn fallback_names(&self) -> Vec<String> {
        self.fallback_models.iter().map(|fallback| fallback.model.clone()).collect()
    }

    /// Returns the settings of requests to a fallback model.
    #[must_use]
    pub fn with_fallback(&self, fallback: &FallbackModel) -> Self {
        let mut settings = self.clone();
        settings.model.clone_from(&fallback.model);
        settings.provider.clone_from(&fallback.provider);
        settings.price = fallback.price;
        settings.max_tokens =
            fallback.max_tokens.map_or(self.max_tokens, |most| most.min(self.max_tokens));
        settings.set_tool_search(fallback.tool_search);
        if fallback.is_plain {
            settings.thinking = None;
            settings.model_options.effort = None;
            settings.model_options.generation = Generation::default();
        }
        settings
    }
}
