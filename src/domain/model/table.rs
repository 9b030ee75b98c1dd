//! The table of known models and their capabilities.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, PoisonError, RwLock};

use super::capabilities::Capabilities;
use crate::domain::provider::Provider;

/// Capabilities by model name.
pub type Known = BTreeMap<String, Capabilities>;

/// From the models' documentation; undocumented capabilities are absent.
static BUILT_IN: LazyLock<Known> =
    LazyLock::new(|| serde_json::from_str(include_str!("models.json")).unwrap_or_default());

/// Returns the built-in capabilities of a model; empty for an unknown model.
pub fn built_in(name: &str) -> Capabilities {
    among(&BUILT_IN, name).cloned().unwrap_or_default()
}

/// The known models, by precedence: the operator's configuration, the model server's list, the
/// built-in table.
#[derive(Debug, Default)]
pub struct Models {
    provider: Provider,
    operators: Known,
    /// Absent until the server's list has been fetched.
    servers: RwLock<Option<Known>>,
}

impl Models {
    /// Creates the table from the built-in models and the operator's configuration.
    pub fn new(provider: Provider, operators: Known) -> Self {
        Self { provider, operators, servers: RwLock::default() }
    }

    /// The protocol of the model server.
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// Replaces the server's list of models.
    pub fn refresh(&self, list: Known) {
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = Some(list);
    }

    /// Returns the known capabilities of a model; empty for an unknown model.
    pub fn find(&self, name: &str) -> Capabilities {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        [Some(&self.operators), servers.as_ref(), Some(&*BUILT_IN)]
            .into_iter()
            .flatten()
            .filter_map(|known| among(known, name))
            .fold(Capabilities::default(), Capabilities::or)
    }

    /// Returns the capabilities of a model that the server's protocol can express.
    pub fn find_usable(&self, name: &str) -> Capabilities {
        let known = self.find(name);
        match self.provider {
            Provider::Anthropic => known,
            Provider::OpenAi => Capabilities {
                thinking: None,
                max_effort_without_thinking: None,
                pdf_input: None,
                context_management: None,
                compaction: None,
                dynamic_filtering: None,
                min_cache_tokens: None,
                ..known
            },
        }
    }

    /// Lists the names of all known models in alphabetical order, and whether the server lists
    /// them, if its list is known. The built-in models belong to the first provider and are not
    /// listed for servers of another protocol.
    pub fn list(&self) -> Vec<(String, Option<bool>)> {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        let listed = servers.iter().flat_map(BTreeMap::keys);
        let built_in = BUILT_IN.keys().filter(|_| self.provider == Provider::Anthropic);
        let names: BTreeSet<&String> =
            built_in.chain(self.operators.keys()).chain(listed).collect();
        let has = |name: &String| servers.as_ref().map(|known| known.contains_key(name));
        names.into_iter().map(|name| (name.clone(), has(name))).collect()
    }
}

fn among<'a>(known: &'a Known, name: &str) -> Option<&'a Capabilities> {
    known.get(name).or_else(|| known.get(undated(name)?))
}

/// Strips the date from a model name: a dated name is a snapshot of the same model.
fn undated(name: &str) -> Option<&str> {
    let (name, date) = name.rsplit_once('-')?;
    (date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}
