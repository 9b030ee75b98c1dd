//! MCP servers, from the operator's file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::environment::secret;
use super::user::user_ids;
use crate::tools::mcp::{Program, ServerSettings, ServerTransport, is_server_name};

/// The default timeout of a call, in seconds.
const DEFAULT_TIMEOUT: u64 = 60;
/// The longest timeout that the file may set, in seconds.
const MAX_TIMEOUT: u64 = 3600;
/// Headers that the protocol sets itself.
const RESERVED: [&str; 4] = ["accept", "last-event-id", "mcp-protocol-version", "mcp-session-id"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ServerFile {
    mcp_servers: BTreeMap<String, ServerEntry>,
}

/// A server in the form that other MCP clients use, with some additional members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerEntry {
    #[serde(rename = "type")]
    kind: Option<TransportType>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    user: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    trusted: bool,
    timeout_seconds: Option<u64>,
    tools: Option<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TransportType {
    Stdio,
    #[serde(alias = "streamable-http", alias = "streamable_http")]
    Http,
}

/// Reads the servers of a file, sorted by name.
pub(super) fn read_servers(path: &Path) -> anyhow::Result<Vec<ServerSettings>> {
    let context = || format!("the MCP servers in {} cannot be used", path.display());
    let text = fs::read_to_string(path).with_context(context)?;
    parse(&text, secret).with_context(context)
}

fn parse(
    text: &str,
    variable: impl Fn(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<Vec<ServerSettings>> {
    let ServerFile { mcp_servers } = serde_json::from_str(text)?;
    let servers = mcp_servers.into_iter().map(|(name, entry)| {
        let of = format!("of {name:?}");
        entry.into_settings(name, &variable).context(of)
    });
    servers.collect()
}

impl ServerEntry {
    fn into_settings(
        self,
        name: String,
        variable: &impl Fn(&str) -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<ServerSettings> {
        ensure!(
            is_server_name(&name),
            "the name is not 1 to 32 of a-z, A-Z, 0-9, - and single _ between others"
        );
        let seconds = self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT);
        ensure!(
            (1..=MAX_TIMEOUT).contains(&seconds),
            "timeout_seconds is not from 1 to {MAX_TIMEOUT}"
        );
        let (timeout, is_trusted, only) =
            (Duration::from_secs(seconds), self.trusted, self.tools.clone());
        let transport = self.into_transport(variable)?;
        Ok(ServerSettings { name, transport, is_trusted, timeout, only, withheld: Vec::new() })
    }

    fn into_transport(
        self,
        variable: &impl Fn(&str) -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<ServerTransport> {
        let Self { kind, command, args, env, cwd, user, url, headers, .. } = self;
        match (command, url) {
            (Some(command), None) if kind.is_none_or(|kind| kind == TransportType::Stdio) => {
                ensure!(headers.is_empty(), "a program takes no headers");
                let env = env.into_iter().map(|(name, value)| {
                    let value = expand_variables(&value, variable)
                        .with_context(|| format!("env {name}"))?;
                    Ok((name, value))
                });
                let env = env.collect::<anyhow::Result<_>>()?;
                let user = user.as_deref().map(user_ids).transpose()?;
                Ok(ServerTransport::Program(Program { command, args, env, folder: cwd, user }))
            }
            (None, Some(url)) if kind.is_none_or(|kind| kind == TransportType::Http) => {
                let url: Url =
                    expand_variables(&url, variable)?.parse().context("the url is not one")?;
                let is_web = matches!(url.scheme(), "http" | "https");
                ensure!(is_web, "the url is not that of a web server");
                let is_plain = args.is_empty() && env.is_empty();
                let is_plain = is_plain && cwd.is_none() && user.is_none();
                ensure!(is_plain, "args, env, cwd and user are for a program");
                Ok(ServerTransport::Http { url, headers: read_headers(headers, variable)? })
            }
            _ => bail!("it has neither a command, of type stdio, nor a url, of type http"),
        }
    }
}

fn read_headers(
    headers: BTreeMap<String, String>,
    variable: &impl Fn(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<HeaderMap> {
    let mut read = HeaderMap::new();
    for (name, value) in headers {
        let of = || format!("header {name}");
        let key: HeaderName = name.parse().with_context(of)?;
        ensure!(!RESERVED.contains(&key.as_str()), "the protocol sends {name} itself");
        let value = expand_variables(&value, variable).with_context(of)?;
        let mut value = HeaderValue::from_str(&value).with_context(of)?;
        value.set_sensitive(true);
        read.insert(key, value);
    }
    Ok(read)
}

/// Replaces each `${NAME}` with the environment variable of that name, or with the content of the file
/// that `NAME_FILE` names. So the file need not contain secrets, and a program receives only the
/// variables that the file names.
fn expand_variables(
    text: &str,
    variable: &impl Fn(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').context("a ${ has no }")?;
        expanded.push_str(before);
        expanded.push_str(&variable(name)?.with_context(|| format!("{name} is not set"))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The secrets of a file, which must not appear in the log. Empty if the file cannot be read.
pub(super) fn secrets_of(path: &Path) -> Vec<String> {
    const WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH"];
    let mut secrets = Vec::new();
    for server in read_servers(path).unwrap_or_default() {
        match server.transport {
            ServerTransport::Program(program) => {
                let is_secret = |name: &String| {
                    let name = name.to_uppercase();
                    WORDS.iter().any(|word| name.contains(word))
                };
                let named = program.env.into_iter().filter(|(name, _)| is_secret(name));
                secrets.extend(named.map(|(_, value)| value));
            }
            ServerTransport::Http { url, headers } => {
                secrets.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
                secrets.extend(url.password().map(str::to_owned));
                let values = headers.values().filter_map(|value| value.to_str().ok());
                // In `Bearer x` only the x is secret.
                let last = values.filter_map(|value| value.rsplit(' ').next());
                secrets.extend(last.map(str::to_owned));
            }
        }
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<Vec<ServerSettings>> {
        parse(text, |name| Ok((name == "PASS").then(|| "geheim".to_owned())))
    }

    fn problem(entry: &str) -> String {
        let text = format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#);
        format!("{:#}", read(&text).unwrap_err())
    }

    #[test]
    fn a_program_and_a_web_server_are_read() {
        let text = r#"{"mcpServers": {
            "web": {"type": "http", "url": "https://h/mcp", "headers": {"X-Key": "is ${PASS}"},
                    "trusted": true, "timeout_seconds": 5, "tools": ["a"]},
            "files": {"command": "/bin/f", "args": ["-x"], "env": {"P": "${PASS}${PASS}"}}
        }}"#;
        let servers = read(text).unwrap();
        let [files, web] = servers.as_slice() else { panic!("{servers:?}") };
        let ServerTransport::Program(program) = &files.transport else { panic!("{files:?}") };
        assert_eq!((files.name.as_str(), files.is_trusted), ("files", false));
        assert_eq!((files.timeout.as_secs(), files.only.clone()), (60, None));
        assert_eq!((program.command.as_str(), &program.args), ("/bin/f", &vec!["-x".to_owned()]));
        assert_eq!(program.env, BTreeMap::from([("P".to_owned(), "geheimgeheim".to_owned())]));
        let ServerTransport::Http { url, headers } = &web.transport else { panic!("{web:?}") };
        assert_eq!((web.name.as_str(), web.is_trusted, web.timeout.as_secs()), ("web", true, 5));
        assert_eq!((url.as_str(), web.only.clone()), ("https://h/mcp", Some(vec!["a".to_owned()])));
        assert_eq!(headers["x-key"], "is geheim");
        assert!(!format!("{servers:?}").contains("geheim"), "{servers:?}");
    }

    #[test]
    fn what_is_no_server_is_refused_with_its_name() {
        let neither = "of \"a\": it has neither a command, of type stdio, nor a url, of type http";
        assert_eq!(problem("{}"), neither);
        assert_eq!(problem(r#"{"command": "x", "url": "http://h"}"#), neither);
        assert_eq!(problem(r#"{"type": "http", "command": "x"}"#), neither);
        let cases = [
            (r#"{"url": "file:///x"}"#, "the url is not that of a web server"),
            (r#"{"url": "http://h", "args": ["x"]}"#, "args, env, cwd and user are for a program"),
            (r#"{"command": "x", "headers": {"a": "b"}}"#, "a program takes no headers"),
            (r#"{"command": "x", "timeout_seconds": 0}"#, "timeout_seconds is not from 1 to 3600"),
            (r#"{"command": "x", "env": {"A": "${NO}"}}"#, "env A: NO is not set"),
            (r#"{"command": "x", "env": {"A": "${NO"}}"#, "env A: a ${ has no }"),
            (
                r#"{"url": "http://h", "headers": {"Accept": "b"}}"#,
                "the protocol sends Accept itself",
            ),
        ];
        for (entry, expected) in cases {
            assert_eq!(problem(entry), format!("of \"a\": {expected}"));
        }
        assert!(problem(r#"{"command": "x", "trustd": true}"#).contains("unknown field `trustd`"));
        let name = r#"{"mcpServers": {"a__b": {"command": "x"}}}"#;
        let problem = format!("{:#}", read(name).unwrap_err());
        assert!(problem.starts_with("of \"a__b\": the name is not"), "{problem}");
    }
}
