//! Which models are known, and what they accept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, PoisonError, RwLock};

use super::capabilities::Capabilities;
use crate::domain::provider::Provider;

/// What models accept, by their names.
pub type Known = BTreeMap<String, Capabilities>;

/// From the documentation of the models. What it leaves open is left out.
static BUILT_IN: LazyLock<Known> =
    LazyLock::new(|| serde_json::from_str(include_str!("models.json")).unwrap_or_default());

/// What is built in of a model; of one that it does not know, nothing.
pub fn built_in(name: &str) -> Capabilities {
    among(&BUILT_IN, name).cloned().unwrap_or_default()
}

/// All that is known of models: what the operator says, then what the server says of itself, then
/// what is built in.
#[derive(Debug, Default)]
pub struct Models {
    provider: Provider,
    operators: Known,
    /// Absent until the server has told.
    servers: RwLock<Option<Known>>,
}

impl Models {
    /// What is built in, and what the operator says.
    pub fn new(provider: Provider, operators: Known) -> Self {
        Self { provider, operators, servers: RwLock::default() }
    }

    /// Whose protocol the server speaks.
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// Takes in what the server says of its models, in place of what it said before.
    pub fn refresh(&self, told: Known) {
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// What is known of a model; of one that nobody has told about, nothing.
    pub fn find(&self, name: &str) -> Capabilities {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        [Some(&self.operators), servers.as_ref(), Some(&*BUILT_IN)]
            .into_iter()
            .flatten()
            .filter_map(|known| among(known, name))
            .fold(Capabilities::default(), Capabilities::or)
    }

    /// What is known of a model and its server's protocol has a place for.
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
                min_cache_tokens: None,
                ..known
            },
        }
    }

    /// The names of all known models, in the order of the alphabet, and whether the server has
    /// them, if it has told. What is built in are models of the first provider, which servers of
    /// another one are not said to have.
    pub fn list(&self) -> Vec<(String, Option<bool>)> {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        let told = servers.iter().flat_map(BTreeMap::keys);
        let built_in = BUILT_IN.keys().filter(|_| self.provider == Provider::Anthropic);
        let names: BTreeSet<&String> = built_in.chain(self.operators.keys()).chain(told).collect();
        let has = |name: &String| servers.as_ref().map(|known| known.contains_key(name));
        names.into_iter().map(|name| (name.clone(), has(name))).collect()
    }
}

fn among<'a>(known: &'a Known, name: &str) -> Option<&'a Capabilities> {
    known.get(name).or_else(|| known.get(undated(name)?))
}

/// A name without the date that it ends in: a dated name is a version of the same model.
fn undated(name: &str) -> Option<&str> {
    let (name, date) = name.rsplit_once('-')?;
    (date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}
