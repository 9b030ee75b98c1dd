//! The table of known models and their capabilities.

use std::collections::BTreeMap;
use std::iter;
use std::sync::LazyLock;

use super::capabilities::Capabilities;
use super::model_ref::ModelRef;
use super::provider_models::ProviderModels;
use crate::domain::platform::Platform;
use crate::domain::provider::Provider;

/// Capabilities by model name.
pub type Known = BTreeMap<String, Capabilities>;

/// From the models' documentation; undocumented capabilities are absent.
pub(super) static BUILT_IN: LazyLock<Known> =
    LazyLock::new(|| serde_json::from_str(include_str!("models.json")).unwrap_or_default());

/// The total size of the user messages of a session, in bytes. Anthropic's own API accepts requests of
/// 32 MB, which also hold the replies, the tools and the system prompt.
const MAX_MESSAGE_BYTES: usize = 30_000_000;

/// Returns the built-in capabilities of a model; empty for an unknown model.
pub fn built_in(name: &str) -> Capabilities {
    among(&BUILT_IN, name).cloned().unwrap_or_default()
}

/// The known models of all providers of the service.
#[derive(Debug, Default)]
pub struct Models {
    default: ProviderModels,
    named: BTreeMap<String, ProviderModels>,
}

/// The name of a model whose first segment is not the name of a configured provider.
#[derive(Debug, thiserror::Error)]
#[error(
    "begins with {provider:?}, which is not a configured provider; the providers are {configured}, and \
     other names are models of the default provider, which does not have this model"
)]
pub struct UnknownProvider {
    provider: String,
    configured: String,
}

impl Models {
    /// Creates the table of a service with one provider from the built-in models and the operator's
    /// configuration.
    pub fn new(provider: Provider, operators: Known) -> Self {
        Self::of(ProviderModels::new(provider, operators), BTreeMap::new())
    }

    /// Creates the table of a service with a default provider and named ones.
    pub const fn of(default: ProviderModels, named: BTreeMap<String, ProviderModels>) -> Self {
        Self { default, named }
    }

    /// The model of a name in a request: `provider/model`, or a model of the default provider if the
    /// first segment is not the name of a configured provider.
    pub fn locate<'a>(&self, full: &'a str) -> ModelRef<'a> {
        match full.split_once('/') {
            Some((provider, name)) if !name.is_empty() && self.named.contains_key(provider) => {
                ModelRef { provider: Some(provider), name }
            }
            Some(_) | None => ModelRef::at_default(full),
        }
    }

    /// Refuses the name of a model whose first segment is probably meant as the name of a provider.
    ///
    /// Names of Chat Completions servers often have slashes. Those of the Messages API do not, unless
    /// its server is a gateway, which lists its models.
    pub fn check_provider(&self, full: &str) -> Result<(), UnknownProvider> {
        let Some((provider, _)) = full.split_once('/') else { return Ok(()) };
        let is_of_default = self.default.protocol != Provider::Anthropic || self.default.has(full);
        if self.named.is_empty() || self.locate(full).provider.is_some() || is_of_default {
            return Ok(());
        }
        let names: Vec<&str> = self.named.keys().map(String::as_str).collect();
        Err(UnknownProvider { provider: provider.to_owned(), configured: names.join(", ") })
    }

    /// The protocol of a model's server.
    pub fn protocol(&self, model: ModelRef<'_>) -> Provider {
        self.provider(model).map_or(self.default.protocol, |provider| provider.protocol)
    }

    /// The cloud that a model's server belongs to, if any.
    pub fn platform(&self, model: ModelRef<'_>) -> Option<Platform> {
        self.provider(model)?.platform
    }

    /// The total size of the user messages of a session with this model, in bytes.
    pub fn max_message_bytes(&self, model: ModelRef<'_>) -> usize {
        self.platform(model).map_or(MAX_MESSAGE_BYTES, Platform::max_message_bytes)
    }

    /// Features of the service that the protocol of a model's server or its cloud does not support.
    pub fn lacks(&self, model: ModelRef<'_>) -> Vec<&'static str> {
        let of_platform = self.platform(model).map_or(&[] as &[_], Platform::lacks);
        [self.protocol(model).lacks(), of_platform].concat()
    }

    /// True if the model's server refuses output schemas with optional members.
    pub fn refuses_optional(&self, model: ModelRef<'_>) -> bool {
        self.provider(model).is_some_and(|provider| provider.refuses_optional)
    }

    /// Replaces the list of models of a provider's server.
    pub fn refresh(&self, provider: Option<&str>, list: Known) {
        if let Some(provider) = self.provider(ModelRef { provider, name: "" }) {
            provider.refresh(list);
        }
    }

    /// Returns the known capabilities of a model; empty for an unknown model.
    pub fn find(&self, model: ModelRef<'_>) -> Capabilities {
        self.provider(model).map(|provider| provider.find(model.name)).unwrap_or_default()
    }

    /// Returns the capabilities of a model that the protocol of its server can express.
    pub fn find_usable(&self, model: ModelRef<'_>) -> Capabilities {
        self.provider(model).map(|provider| provider.find_usable(model.name)).unwrap_or_default()
    }

    /// Lists the full names of all known models, each provider's in alphabetical order, and whether
    /// its server lists them, if its list is known. The built-in models belong to the Messages API of
    /// the default provider.
    pub fn list(&self) -> Vec<(String, Option<bool>)> {
        let built_in = BUILT_IN.keys().filter(|_| self.default.protocol == Provider::Anthropic);
        let mut all = self.default.list(built_in);
        for (provider, models) in &self.named {
            let own = models.list(iter::empty()).into_iter();
            all.extend(own.map(|(name, is_listed)| (format!("{provider}/{name}"), is_listed)));
        }
        all
    }

    /// None for a provider that is not configured.
    fn provider(&self, model: ModelRef<'_>) -> Option<&ProviderModels> {
        model.provider.map_or(Some(&self.default), |name| self.named.get(name))
    }
}

pub(super) fn among<'a>(known: &'a Known, name: &str) -> Option<&'a Capabilities> {
    known.get(name).or_else(|| known.get(undated(name)?))
}

/// Strips the date from a model name: a dated name is a snapshot of the same model.
fn undated(name: &str) -> Option<&str> {
    let (name, date) = name.rsplit_once('-')?;
    (date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}
