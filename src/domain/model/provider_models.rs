//! The known models of one provider.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};

use super::capabilities::Capabilities;
use super::table::{BUILT_IN, Known, among};
use crate::domain::platform::Platform;
use crate::domain::provider::Provider;

/// The known models of one provider, by precedence: the operator's configuration, the model server's
/// list, the built-in table.
#[derive(Debug, Default)]
pub struct ProviderModels {
    /// The protocol of its server.
    pub protocol: Provider,
    /// True if its server refuses output schemas with optional members.
    pub refuses_optional: bool,
    /// The cloud that its server belongs to, if any.
    pub platform: Option<Platform>,
    operators: Known,
    /// Absent until the server's list has been fetched.
    servers: RwLock<Option<Known>>,
}

impl ProviderModels {
    /// Creates the table from the operator's configuration.
    pub fn new(protocol: Provider, operators: Known) -> Self {
        Self { protocol, operators, ..Self::default() }
    }

    /// The table of a server that refuses output schemas with optional members, or accepts them.
    #[must_use]
    pub fn with_optional_refused(self, refuses_optional: bool) -> Self {
        Self { refuses_optional, ..self }
    }

    /// The table of a server of this cloud.
    #[must_use]
    pub fn on(self, platform: Option<Platform>) -> Self {
        Self { platform, ..self }
    }

    pub(super) fn refresh(&self, list: Known) {
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = Some(list);
    }

    /// The known capabilities of a model; empty for an unknown model.
    pub(super) fn find(&self, name: &str) -> Capabilities {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        let own_name = self.platform.map_or(name, |platform| platform.own_name(name));
        // Whether the platforms take references to tools is not documented.
        let of_platform = Capabilities { tool_search: Some(false), ..Capabilities::default() };
        let found = [
            among(&self.operators, name),
            self.platform.map(|_| &of_platform),
            servers.as_ref().and_then(|known| among(known, name)),
            among(&BUILT_IN, own_name),
        ];
        let known = found.into_iter().flatten().fold(Capabilities::default(), Capabilities::or);
        match self.platform {
            // Tools are called from code in containers of the provider.
            Some(_) => Capabilities { dynamic_filtering: Some(false), ..known },
            None => known,
        }
    }

    /// The capabilities of a model that the server's protocol can express.
    pub(super) fn find_usable(&self, name: &str) -> Capabilities {
        let known = self.find(name);
        match self.protocol {
            Provider::Anthropic => known,
            Provider::OpenAi | Provider::OpenAiResponses => Capabilities {
                thinking: None,
                max_effort_without_thinking: None,
                pdf_input: None,
                context_management: None,
                compaction: None,
                dynamic_filtering: None,
                tool_search: None,
                min_cache_tokens: None,
                ..known
            },
        }
    }

    /// True if the operator or the server names the model.
    pub(super) fn has(&self, name: &str) -> bool {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        let is_listed = servers.as_ref().is_some_and(|known| known.contains_key(name));
        is_listed || self.operators.contains_key(name)
    }

    /// The names of the models that the operator, the server or `more` names, and whether the server
    /// lists them, if its list is known.
    pub(super) fn list<'a>(
        &'a self,
        more: impl Iterator<Item = &'a String>,
    ) -> Vec<(String, Option<bool>)> {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        let listed = servers.iter().flat_map(BTreeMap::keys).cloned();
        let named = self.operators.keys().chain(more).cloned();
        let names: BTreeSet<String> = named.chain(listed).collect();
        let has = |name: &String| servers.as_ref().map(|known| known.contains_key(name));
        names.into_iter().map(|name| (has(&name), name)).map(|(has, name)| (name, has)).collect()
    }
}
