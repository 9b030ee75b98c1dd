//! The clouds of named model providers: addresses and credentials.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;

use super::environment::{secret, variable};
use crate::domain::platform::Platform;
use crate::model::anthropic::{AwsKeys, Hosting, ServiceAccount, TokenSource};

/// The host of the metadata server, unless Google's own variable for its clients names another one.
const METADATA_HOST: &str = "metadata.google.internal";
pub(super) const METADATA_HOST_VARIABLE: &str = "GCE_METADATA_HOST";

/// The member `platform` of a provider.
#[derive(Debug, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub(super) enum PlatformEntry {
    Bedrock(Bedrock),
    Vertex(Vertex),
}

/// Amazon Bedrock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bedrock {
    region: String,
    /// The environment variables with the keys of AWS, or with the suffix `_FILE` the files.
    access_key_id_env: Option<String>,
    secret_access_key_env: Option<String>,
    session_token_env: Option<String>,
}

/// Google Cloud.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vertex {
    /// A region, `us`, `eu` or `global`.
    region: String,
    /// The project; default: that of the service account.
    project: Option<String>,
    /// The key of a service account; default: the metadata server.
    credentials_file: Option<PathBuf>,
}

impl PlatformEntry {
    pub(super) const fn platform(&self) -> Platform {
        match self {
            Self::Bedrock(_) => Platform::Bedrock,
            Self::Vertex(_) => Platform::Vertex,
        }
    }

    /// Checks the members. `has_key` is true if the provider has an API key.
    pub(super) fn check(&self, has_key: bool) -> anyhow::Result<()> {
        match self {
            Self::Bedrock(bedrock) => bedrock.check(has_key),
            Self::Vertex(vertex) => vertex.check(has_key),
        }
    }

    /// The address of the server, unless the provider has another one.
    pub(super) fn base_url(&self, given: Option<&Url>) -> anyhow::Result<Url> {
        match self {
            Self::Bedrock(Bedrock { region, .. }) => {
                let of_region = || {
                    let url = format!("https://bedrock-mantle.{region}.api.aws/anthropic");
                    url.parse().with_context(|| format!("region {region:?}"))
                };
                given.cloned().map_or_else(of_region, Ok)
            }
            Self::Vertex(vertex) => vertex.base_url(given),
        }
    }

    /// The credentials of the server's requests.
    pub(super) fn hosting(&self) -> anyhow::Result<Hosting> {
        Ok(match self {
            Self::Bedrock(bedrock) => Hosting::Bedrock(bedrock.keys()?.map(Box::new)),
            Self::Vertex(vertex) => Hosting::Vertex(Box::new(vertex.source()?)),
        })
    }

    /// The secrets that can be read, which must not appear in the log.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        match self {
            Self::Bedrock(bedrock) => {
                let keys = bedrock.keys().ok().flatten();
                let secrets = keys.map(|keys| [Some(keys.secret_access_key), keys.session_token]);
                secrets.into_iter().flatten().flatten().collect()
            }
            Self::Vertex(vertex) => {
                let account = vertex.account().ok().flatten();
                account.map(|account| account.secret().clone()).into_iter().collect()
            }
        }
    }
}

/// Checks a part of a host name or a path.
fn check_name(member: &str, name: &str) -> anyhow::Result<()> {
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:".contains(c);
    ensure!(
        !name.is_empty() && name.chars().all(is_legal),
        "platform: {member} {name:?} is invalid"
    );
    Ok(())
}

impl Bedrock {
    fn check(&self, has_key: bool) -> anyhow::Result<()> {
        check_name("region", &self.region)?;
        match (&self.access_key_id_env, &self.secret_access_key_env, has_key) {
            (Some(_), Some(_), false) => {}
            (None, None, true) => ensure!(
                self.session_token_env.is_none(),
                "platform: session_token_env is set without access_key_id_env and \
                 secret_access_key_env"
            ),
            (Some(_), Some(_), true) => {
                bail!("the provider has an API key and access_key_id_env: set only one of them")
            }
            (None, None, false) => bail!(
                "platform: Amazon Bedrock needs access_key_id_env and secret_access_key_env, or the \
                 provider api_key_env"
            ),
            (Some(_), None, _) | (None, Some(_), _) => {
                bail!("platform: access_key_id_env and secret_access_key_env must be set together")
            }
        }
        Ok(())
    }

    fn keys(&self) -> anyhow::Result<Option<AwsKeys>> {
        let (Some(id), Some(key)) = (&self.access_key_id_env, &self.secret_access_key_env) else {
            return Ok(None);
        };
        let needed = |name: &str, what: &str| match secret(name)? {
            Some(secret) => Ok(SecretString::from(secret)),
            None => bail!("{name} is not set; it has the {what} of the provider"),
        };
        let token = self.session_token_env.as_deref();
        // Permanent keys have none.
        let token = token.map(secret).transpose()?.flatten();
        Ok(Some(AwsKeys {
            region: self.region.clone(),
            access_key_id: needed(id, "access key id")?,
            secret_access_key: needed(key, "secret access key")?,
            session_token: token.map(SecretString::from),
        }))
    }
}

impl Vertex {
    fn check(&self, has_key: bool) -> anyhow::Result<()> {
        check_name("region", &self.region)?;
        ensure!(
            !has_key,
            "Google Cloud accepts no API key: leave out api_key_env and api_key_file, and set \
             credentials_file of platform"
        );
        match &self.project {
            Some(project) => check_name("project", project),
            None if self.credentials_file.is_some() => Ok(()),
            None => bail!("platform: project is missing"),
        }
    }

    fn account(&self) -> anyhow::Result<Option<ServiceAccount>> {
        let Some(path) = &self.credentials_file else { return Ok(None) };
        let context = || format!("credentials_file: {} cannot be used", path.display());
        let text = fs::read_to_string(path).with_context(context)?;
        ServiceAccount::parse(&text).map(Some).with_context(context)
    }

    fn source(&self) -> anyhow::Result<TokenSource> {
        if let Some(account) = self.account()? {
            return Ok(TokenSource::ServiceAccount(Box::new(account)));
        }
        let host = variable(METADATA_HOST_VARIABLE).unwrap_or_else(|| METADATA_HOST.to_owned());
        let url =
            format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
        Ok(TokenSource::MetadataServer(
            url.parse().with_context(|| format!("{METADATA_HOST_VARIABLE} is not a host"))?,
        ))
    }

    /// The folder of the models.
    fn base_url(&self, given: Option<&Url>) -> anyhow::Result<Url> {
        let region = &self.region;
        // The hosts that Anthropic's client for Google Cloud uses.
        let host = match region.as_str() {
            "global" => "aiplatform.googleapis.com".to_owned(),
            "us" | "eu" => format!("aiplatform.{region}.rep.googleapis.com"),
            _ => format!("{region}-aiplatform.googleapis.com"),
        };
        let of_region = || format!("https://{host}/v1").parse();
        let mut url = given.cloned().map_or_else(of_region, Ok)?;
        let of_account = || self.account().ok().flatten().and_then(|account| account.project_id);
        let Some(project) = self.project.clone().or_else(of_account) else {
            bail!("platform: project is missing, and the service account names none");
        };
        let Ok(mut path) = url.path_segments_mut() else { bail!("base_url cannot have a path") };
        path.pop_if_empty().extend(["projects", &project, "locations", region]);
        path.extend(["publishers", "anthropic", "models"]);
        drop(path);
        Ok(url)
    }
}
