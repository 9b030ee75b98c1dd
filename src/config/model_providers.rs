//! Named model providers, from the operator's file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::Url;
use secrecy::SecretString;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::environment::{read_secret, secret};
use super::provider_platform::PlatformEntry;
use crate::domain::model::{Known, ProviderModels, is_provider_name};
use crate::domain::platform::Platform;
use crate::domain::price::{Price, Prices};
use crate::domain::provider::{Dialect, MaxTokensField, Provider, is_openai};
use crate::model::{NamedServer, Server, anthropic, openai};

/// The named providers of the operator's file, by name.
#[derive(Debug, Default)]
pub(super) struct ModelProviders(BTreeMap<String, ProviderEntry>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    protocol: Provider,
    /// Only providers on a platform may leave it out.
    #[serde(default, deserialize_with = "url")]
    base_url: Option<Url>,
    /// The Messages API: the cloud that the server belongs to.
    platform: Option<PlatformEntry>,
    /// The environment variable with the key, or with the suffix `_FILE` a file that has it.
    api_key_env: Option<String>,
    api_key_file: Option<PathBuf>,
    /// The Messages API: the key is sent as a bearer token.
    #[serde(default)]
    bearer: bool,
    anthropic_version: Option<String>,
    max_tokens_field: Option<MaxTokensField>,
    images: Option<bool>,
    max_requests: Option<usize>,
    #[serde(default)]
    capabilities: Known,
    #[serde(default)]
    prices: Prices,
}

impl ModelProviders {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let context = || format!("the model providers in {} cannot be used", path.display());
        let text = fs::read_to_string(path).with_context(context)?;
        Self::parse(&text).with_context(context)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let providers: BTreeMap<String, ProviderEntry> = serde_json::from_str(text)?;
        for (name, entry) in &providers {
            ensure!(is_provider_name(name), "{name:?} is not 1 to 32 of a-z, 0-9, - and _");
            entry.check().with_context(|| format!("of {name:?}"))?;
        }
        Ok(Self(providers))
    }

    /// The known models of each provider.
    pub(super) fn models(&self) -> BTreeMap<String, ProviderModels> {
        let models = |entry: &ProviderEntry| {
            let is_openai = entry.protocol != Provider::Anthropic && is_openai(entry.host());
            let models = ProviderModels::new(entry.protocol, entry.capabilities.clone());
            let platform = entry.platform.as_ref().map(PlatformEntry::platform);
            models.with_optional_refused(is_openai).on(platform)
        };
        self.0.iter().map(|(name, entry)| (name.clone(), models(entry))).collect()
    }

    /// The prices of all models, by their full names.
    pub(super) fn prices(&self) -> Prices {
        let of = |(name, entry): (&String, &ProviderEntry)| {
            let full = |(model, price): (&String, &Price)| (format!("{name}/{model}"), *price);
            entry.prices.iter().map(full).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// The servers, with their keys.
    pub(super) fn servers(&self, idle_timeout: Duration) -> anyhow::Result<Vec<NamedServer>> {
        let server = |(name, entry): (&String, &ProviderEntry)| {
            let server = entry.server(idle_timeout);
            let server = server.with_context(|| format!("the model provider {name:?}"))?;
            let max_requests = entry.max_requests;
            Ok(NamedServer { name: name.as_str().into(), server, max_requests })
        };
        self.0.iter().map(server).collect()
    }

    /// The keys that can be read, which must not appear in the log.
    pub(super) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let urls = self.0.values().filter_map(|entry| entry.base_url.as_ref());
        let passwords = urls.filter_map(Url::password);
        let keys = self.0.values().filter_map(|entry| entry.key().ok().flatten());
        let platforms = self.0.values().filter_map(|entry| entry.platform.as_ref());
        let of_platforms = platforms.flat_map(PlatformEntry::secrets);
        keys.chain(of_platforms).chain(passwords.map(SecretString::from))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ProviderEntry {
    fn check(&self) -> anyhow::Result<()> {
        match &self.base_url {
            Some(url) => {
                let is_web = matches!(url.scheme(), "http" | "https");
                ensure!(is_web, "base_url is not that of a web server");
            }
            None => ensure!(self.platform.is_some(), "base_url is missing"),
        }
        ensure!(
            self.api_key_env.is_none() || self.api_key_file.is_none(),
            "api_key_env and api_key_file are both set: set only one of them"
        );
        ensure!(self.max_requests != Some(0), "max_requests is 0; leave it out for no limit");
        match self.protocol {
            Provider::Anthropic => ensure!(
                self.max_tokens_field.is_none() && self.images.is_none(),
                "max_tokens_field and images are for the protocol openai"
            ),
            Provider::OpenAi => ensure!(
                self.anthropic_version.is_none() && !self.bearer && self.platform.is_none(),
                "anthropic_version, bearer and platform are for the protocol anthropic"
            ),
            Provider::OpenAiResponses => ensure!(
                self.anthropic_version.is_none()
                    && !self.bearer
                    && self.platform.is_none()
                    && self.max_tokens_field.is_none()
                    && self.images.is_none(),
                "anthropic_version, bearer and platform are for the protocol anthropic, and \
                 max_tokens_field and images for openai"
            ),
        }
        let Some(platform) = &self.platform else { return Ok(()) };
        ensure!(
            !self.bearer,
            "bearer is not for a platform: API keys of platforms are bearer tokens"
        );
        let has_version = self.anthropic_version.is_some();
        ensure!(
            !(has_version && platform.platform() == Platform::Vertex),
            "anthropic_version is not for Google Cloud, which has one version"
        );
        platform.check(self.api_key_env.is_some() || self.api_key_file.is_some())
    }

    fn host(&self) -> Option<&str> {
        self.base_url.as_ref()?.host_str()
    }

    /// None for a server without a key.
    fn key(&self) -> anyhow::Result<Option<SecretString>> {
        let key = match (&self.api_key_env, &self.api_key_file) {
            (Some(name), _) => match secret(name)? {
                Some(key) => key,
                None => bail!("{name} is not set; it has the key of the provider"),
            },
            (None, Some(path)) => read_secret(path)
                .with_context(|| format!("api_key_file: {} cannot be used", path.display()))?,
            (None, None) => return Ok(None),
        };
        Ok(Some(key.into()))
    }

    fn server(&self, idle_timeout: Duration) -> anyhow::Result<Server> {
        let given = self.base_url.as_ref();
        let base_url = match &self.platform {
            Some(platform) => platform.base_url(given)?,
            None => given.cloned().context("base_url is missing")?,
        };
        let key = self.key()?;
        Ok(match self.protocol {
            Provider::Anthropic => {
                let is_bearer = self.bearer || self.platform.is_some();
                let (api_key, auth_token) = if is_bearer { (None, key) } else { (key, None) };
                let hosting = self.platform.as_ref().map(PlatformEntry::hosting).transpose()?;
                let version = self.anthropic_version.clone();
                let version = version.unwrap_or_else(|| "2023-06-01".to_owned());
                Server::Anthropic(anthropic::ClientConfig {
                    base_url,
                    api_key,
                    auth_token,
                    version,
                    hosting: hosting.unwrap_or_default(),
                    idle_timeout,
                })
            }
            Provider::OpenAi => {
                let usual = MaxTokensField::usual(is_openai(base_url.host_str()));
                let dialect = Dialect {
                    max_tokens_field: self.max_tokens_field.unwrap_or(usual),
                    takes_images: self.images.unwrap_or(true),
                };
                let api_key = key;
                Server::OpenAi(openai::ClientConfig { base_url, api_key, dialect, idle_timeout })
            }
            Provider::OpenAiResponses => {
                let api_key = key;
                let config = openai::responses::ClientConfig { base_url, api_key, idle_timeout };
                Server::Responses(config)
            }
        })
    }
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        format!("{:#}", ModelProviders::parse(text).unwrap_err())
    }

    #[test]
    fn a_file_names_providers_with_their_models_and_prices() {
        let providers = ModelProviders::parse(
            r#"{ "local": { "protocol": "openai", "base_url": "http://localhost:1/v1",
                            "max_requests": 4,
                            "capabilities": { "qwen/3": { "max_tokens": 9 } },
                            "prices": { "qwen/3": { "input": 1, "output": 2, "cache_write": 0,
                                                    "cache_read": 0 } } },
                 "second": { "protocol": "anthropic", "base_url": "https://gateway.example" } }"#,
        )
        .unwrap();
        let servers = providers.servers(Duration::from_secs(1)).unwrap();
        let named: Vec<_> =
            servers.iter().map(|it| (&*it.name, it.server.provider(), it.max_requests)).collect();
        let expected =
            [("local", Provider::OpenAi, Some(4)), ("second", Provider::Anthropic, None)];
        assert_eq!(named, expected);
        assert_eq!(providers.prices().get("local/qwen/3").unwrap().output, 2);
        assert_eq!(providers.models().keys().collect::<Vec<_>>(), ["local", "second"]);
    }

    #[test]
    fn mistakes_are_named_with_their_provider() {
        let with = |members: &str| {
            refusal(&format!(
                r#"{{"one": {{"protocol": "openai", "base_url": "http://h"{members}}}}}"#
            ))
        };
        assert!(
            refusal(r#"{"a/b": {"protocol": "openai", "base_url": "http://h"}}"#).contains("a/b")
        );
        assert!(with(r#", "bearer": true"#).starts_with("of \"one\": anthropic_version, bearer"));
        let responses = refusal(
            r#"{"one": {"protocol": "openai-responses", "base_url": "http://h", "images": true}}"#,
        );
        assert!(responses.contains("max_tokens_field and images for openai"), "{responses}");
        assert!(with(r#", "max_requests": 0"#).contains("max_requests is 0"));
        assert!(with(r#", "api_key": "secret""#).contains("unknown field `api_key`"));
        let both = with(r#", "api_key_env": "A", "api_key_file": "b""#);
        assert!(both.contains("both set"), "{both}");
    }

    #[test]
    fn a_platform_has_an_address_and_needs_credentials() {
        let entry = |members: &str| {
            format!(r#"{{"one": {{"protocol": "anthropic", "platform": {{{members}}}}}}}"#)
        };
        let providers = ModelProviders::parse(&entry(
            r#""name": "vertex", "region": "europe-west1", "project": "p""#,
        ));
        let servers = providers.unwrap().servers(Duration::from_secs(1)).unwrap();
        let expected = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/\
                        europe-west1/publishers/anthropic/models";
        assert_eq!(servers[0].server.base_url().as_str(), expected);
        let bedrock = ModelProviders::parse(
            r#"{"one": {"protocol": "anthropic", "api_key_env": "PATH",
                        "platform": {"name": "bedrock", "region": "us-east-1"}}}"#,
        );
        let servers = bedrock.unwrap().servers(Duration::from_secs(1)).unwrap();
        let expected = "https://bedrock-mantle.us-east-1.api.aws/anthropic";
        assert_eq!(servers[0].server.base_url().as_str(), expected);

        for (members, message) in [
            (r#""name": "bedrock""#, "missing field `region`"),
            (r#""name": "bedrock", "region": "us-east-1""#, "needs access_key_id_env"),
            (r#""name": "bedrock", "region": "US", "access_key_id_env": "A""#, "region \"US\""),
            (
                r#""name": "bedrock", "region": "us-east-1", "access_key_id_env": "A""#,
                "must be set together",
            ),
            (r#""name": "vertex", "region": "global""#, "project is missing"),
            (r#""name": "vertex", "region": "global", "key": 1"#, "unknown field `key`"),
            (r#""name": "azure""#, "unknown variant `azure`"),
        ] {
            let refused = refusal(&entry(members));
            assert!(refused.contains(message), "{members}: {refused}");
        }
    }

    #[test]
    fn a_key_is_read_from_the_named_file_or_variable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "geheim-9\n").unwrap();
        let text = format!(
            r#"{{"one": {{"protocol": "openai", "base_url": "http://h", "api_key_file": {path:?}}},
                "two": {{"protocol": "openai", "base_url": "http://h",
                         "api_key_env": "TWOSTEP_TEST_KEY_THAT_NOBODY_SETS"}}}}"#
        );
        let providers = ModelProviders::parse(&text).unwrap();
        assert_eq!(providers.secrets().count(), 1);
        let error = format!("{:#}", providers.servers(Duration::from_secs(1)).unwrap_err());
        assert!(error.contains("\"two\": TWOSTEP_TEST_KEY_THAT_NOBODY_SETS is not set"), "{error}");
    }
}
