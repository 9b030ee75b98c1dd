//! The configuration file of the HTTP endpoint tools.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::Endpoint;
use crate::domain::tool::ToolClass;
use crate::domain::webhook::WebhookSecret;
use crate::outbound::{AllowedHosts, BadHost, Outbound, RefusedUrl};
use crate::tools::tool::Tool;

/// The default timeout of a call, in seconds.
const USUAL_TIMEOUT: u64 = 60;
/// Maximum timeout of a call, in seconds.
const MAX_TIMEOUT: u64 = 600;

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Hosts that are allowed at any address and without TLS.
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

/// The class of a tool in the file.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Class {
    Pure,
    /// The tool can have side effects: calls need permission and are not repeated.
    #[default]
    Effect,
}

/// An error in the file.
#[derive(Debug, thiserror::Error)]
pub enum BadEndpoints {
    /// The file is not JSON of the expected form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// An entry of the host list is not valid.
    #[error("hosts: {0}")]
    Hosts(#[from] BadHost),
    /// The HTTP client could not be built.
    #[error("the HTTP client did not start: {0}")]
    Http(#[from] reqwest::Error),
    /// A declaration of a tool is not valid.
    #[error("the tool {name:?}: {cause}")]
    Tool {
        /// The name of the tool.
        name: String,
        /// The cause.
        cause: BadEndpoint,
    },
}

/// The cause of an invalid declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// The URL cannot be parsed.
    #[error("the URL cannot be read")]
    Url,
    /// The address rules refuse the URL.
    #[error("the URL {0}")]
    Refused(#[from] RefusedUrl),
    /// The secret is not valid.
    #[error("the secret is not `whsec_` and 32 bytes in Base64")]
    Secret,
    /// The timeout is out of range.
    #[error("timeout_seconds is not 1 to {MAX_TIMEOUT}")]
    Timeout,
}

/// Parses the file and returns its tools.
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
