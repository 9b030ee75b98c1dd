//! The secrets of the configuration, which must not appear in the log.

use std::path::Path;

use clap::{ArgMatches, Command};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use super::bootstrap::{BOOTSTRAP_KEY, PRINT};
use super::effective_options::{SECRET_OPTIONS, SECRETS};
use super::environment::secret;
use super::model_providers::ModelProviders;
use super::tool_servers::secrets_of;

/// Headers for the collector of traces: `name=value` pairs, separated by commas.
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];

/// The secrets of the process.
#[derive(Debug, Default)]
pub struct Secrets(Vec<SecretString>);

impl Secrets {
    /// Collects the secrets of the environment and of a command line that `command` parsed.
    pub fn from_command(command: &Command, matches: &ArgMatches) -> Self {
        let mut secrets = Self::default();
        // The use of a file that cannot be read is an error; here it has no secret.
        let value_of = |name| secret(name).ok().flatten();
        for name in SECRETS.into_iter().chain(SECRET_OPTIONS) {
            match value_of(name) {
                Some(value) if name == BOOTSTRAP_KEY && value == PRINT => {}
                Some(url) if name.ends_with("_URL") => secrets.add(&url, true),
                value => secrets.0.extend(value.map(SecretString::from)),
            }
        }
        let headers: Vec<String> = HEADERS.into_iter().filter_map(value_of).collect();
        for header in headers.iter().flat_map(|list| list.split(',')) {
            let value = header.split_once('=').map(|(_, value)| decoded(value.trim()));
            secrets.0.extend(value.map(SecretString::from));
        }
        secrets.collect(command, matches);
        secrets
    }

    /// Returns the secrets.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(ExposeSecret::expose_secret)
    }

    fn collect(&mut self, command: &Command, matches: &ArgMatches) {
        for arg in command.get_arguments() {
            let values = matches.try_get_raw(arg.get_id().as_str()).ok().flatten();
            for value in values.into_iter().flatten() {
                if arg.get_id() == "mcp" {
                    let secrets = secrets_of(Path::new(value));
                    self.0.extend(secrets.into_iter().map(SecretString::from));
                }
                if arg.get_id() == "model_providers"
                    && let Ok(providers) = ModelProviders::read(Path::new(value))
                {
                    self.0.extend(providers.secrets());
                }
                self.add(&value.to_string_lossy(), arg.is_hide_env_values_set());
            }
        }
        let inner = matches.subcommand();
        let inner = inner.and_then(|(name, matches)| {
            command.find_subcommand(name).map(|command| (command, matches))
        });
        if let Some((command, matches)) = inner {
            self.collect(command, matches);
        }
    }

    /// Adds a value. Of a URL only the passwords are secret.
    fn add(&mut self, value: &str, is_secret: bool) {
        match value.parse::<Url>() {
            Ok(url) => {
                let named = url.query_pairs().filter(|(name, _)| name.contains("password"));
                let named = named.map(|(_, value)| value.into_owned());
                let password = url.password().into_iter();
                let spelt = password.flat_map(|text| [text.to_owned(), decoded(text)]);
                self.0.extend(named.chain(spelt).map(SecretString::from));
            }
            Err(_) if is_secret => self.0.push(value.into()),
            Err(_) => {}
        }
    }
}

/// Decodes the percent-encoding of a part of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.get(..2)).flatten();
        let digits = escaped.and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    fn given(args: &[&str]) -> Vec<String> {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut(args).unwrap();
        let mut secrets = Secrets::default();
        secrets.collect(&command, &matches);
        let mut all: Vec<String> = secrets.iter().map(str::to_owned).collect();
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn passwords_are_found_at_every_position_of_a_command_line() {
        let database = "postgres://me:ge%2Fheim-1@host/db";
        assert_eq!(
            given(&["twostep", "serve", "--database-url", database, "--bind", "127.0.0.1:1"]),
            ["ge%2Fheim-1", "ge/heim-1"]
        );
        assert_eq!(
            given(&[
                "twostep",
                "keys",
                "create",
                "a",
                "--database-url",
                "postgres://h/d?password=geheim-2"
            ]),
            ["geheim-2"]
        );
        assert_eq!(
            given(&["twostep", "serve", "--anthropic-base-url", "https://me:geheim-3@host"]),
            ["geheim-3"]
        );
        assert_eq!(given(&["twostep", "sessions", "list", "--key", "tsk_1"]), ["tsk_1"]);
        assert_eq!(given(&["twostep", "serve", "--model", "claude"]), [""; 0]);
    }
}
