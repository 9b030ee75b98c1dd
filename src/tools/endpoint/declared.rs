//! The file in which the operator declares tools.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::Endpoint;
use crate::domain::tool::ToolClass;
use crate::domain::webhook::WebhookSecret;
use crate::outbound::{AllowedHosts, BadHost, Outbound, Refused};
use crate::tools::Tool;

/// How long a call may take, in seconds, unless its declaration says otherwise.
const USUAL_TIMEOUT: u64 = 60;
/// How long it may take at all.
const MAX_TIMEOUT: u64 = 600;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Hosts that may be asked wherever they are, and without TLS.
    #[serde(default)]
    hosts: Vec<String>,
    tools: Vec<Declaration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declaration {
    name: String,
    description: String,
    input_schema: Value,
    url: String,
    #[serde(default)]
    class: Class,
    #[serde(default = "usual_timeout")]
    timeout_seconds: u64,
    secret: Option<String>,
}

fn usual_timeout() -> u64 {
    USUAL_TIMEOUT
}

/// What a call may do, as far as an endpoint can say it.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Class {
    Pure,
    /// Anything: who says nothing of it is asked about, and its calls are not repeated.
    #[default]
    Effect,
}

/// A file that declares no tools, or wrong ones.
#[derive(Debug, thiserror::Error)]
pub enum BadEndpoints {
    /// It is not the JSON that it should be.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A host of the list is none.
    #[error("hosts: {0}")]
    Hosts(#[from] BadHost),
    /// TLS or the resolver did not start.
    #[error("the HTTP client did not start: {0}")]
    Http(#[from] reqwest::Error),
    /// One of the tools cannot be had.
    #[error("the tool {name:?}: {cause}")]
    Tool {
        /// The tool.
        name: String,
        /// What is wrong with it.
        cause: BadEndpoint,
    },
}

/// What is wrong with a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// Its URL is none.
    #[error("the URL cannot be read")]
    Url,
    /// Its URL is where nobody may ask.
    #[error("the URL {0}")]
    Refused(#[from] Refused),
    /// Its secret is none.
    #[error("the secret is not `whsec_` and 32 bytes in Base64")]
    Secret,
    /// It has no time at all, or too much of it.
    #[error("timeout_seconds is not 1 to {MAX_TIMEOUT}")]
    Timeout,
}

/// The tools that a file declares.
pub fn endpoints(text: &str) -> Result<Vec<Arc<dyn Tool>>, BadEndpoints> {
    let File { hosts, tools } = serde_json::from_str(text)?;
    let hosts =
        AllowedHosts::parse(["public"].into_iter().chain(hosts.iter().map(String::as_str)))?;
    let outbound = Outbound::new(hosts.clone(), Duration::from_secs(MAX_TIMEOUT))?;
    let tools = tools.into_iter().map(|declared| {
        let name = declared.name.clone();
        let tool = endpoint(declared, &hosts, &outbound);
        tool.map(|tool| Arc::new(tool) as Arc<dyn Tool>)
            .map_err(|cause| BadEndpoints::Tool { name, cause })
    });
    tools.collect()
}

fn endpoint(
    declared: Declaration,
    hosts: &AllowedHosts,
    outbound: &Outbound,
) -> Result<Endpoint, BadEndpoint> {
    let Declaration { name, description, input_schema, class, timeout_seconds, .. } = declared;
    let url: Url = declared.url.parse().map_err(|_| BadEndpoint::Url)?;
    hosts.reach(&url)?;
    if !(1..=MAX_TIMEOUT).contains(&timeout_seconds) {
        return Err(BadEndpoint::Timeout);
    }
    let secret = declared.secret.as_deref().map(str::parse::<WebhookSecret>);
    let class = match class {
        Class::Pure => ToolClass::Pure,
        Class::Effect => ToolClass::Effect,
    };
    Ok(Endpoint {
        name,
        description,
        input_schema,
        class,
        timeout: Duration::from_secs(timeout_seconds),
        url,
        secret: secret.transpose().map_err(|_| BadEndpoint::Secret)?,
        outbound: outbound.clone(),
    })
}
