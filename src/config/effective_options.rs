//! The effective options of `serve`: each option with its value and the origin of the value.

use std::collections::BTreeSet;
use std::env;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use reqwest::Url;
use serde::Serialize;

use super::args::{LogArgs, ServeArgs};
use super::bootstrap::BOOTSTRAP_KEY;
use super::environment::{file_variable, variable};
use super::provider::ANTHROPIC_TOKEN;

/// Environment variables without an option, because they contain only secrets.
pub(super) const SECRETS: [&str; 9] = [
    "ANTHROPIC_API_KEY",
    ANTHROPIC_TOKEN,
    "OPENAI_API_KEY",
    BOOTSTRAP_KEY,
    "TWOSTEP_METRICS_KEY",
    "TWOSTEP_PERMISSION_KEY",
    "TWOSTEP_SEARCH_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
];
/// Environment variables with secrets that options or libraries read. As for [`SECRETS`], a variable with
/// the suffix `_FILE` can name a file with the value.
pub(super) const SECRET_OPTIONS: [&str; 4] =
    ["DATABASE_URL", "PGPASSWORD", "TWOSTEP_KEY", "TWOSTEP_RECORDS_URL"];
/// The text that replaces a secret.
const HIDDEN: &str = "***";

/// The options of `serve` with the origin of each value.
#[derive(Debug, Clone)]
pub struct EffectiveOptions {
    /// The parsed options.
    pub args: ServeArgs,
    /// The same options as text, in the order of `--help`.
    pub options: Vec<EffectiveOption>,
}

/// An option with its effective value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EffectiveOption {
    /// Its name, such as `--bind`; `None` for a setting that has only a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// The environment variable that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// Its value; `None` if it has none or if the value depends on other options.
    pub value: Option<String>,
    /// The origin of the value.
    pub from: Origin,
}

/// The origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The command line.
    Flag,
    /// An environment variable.
    Environment,
    /// The default of the option.
    Default,
}

impl Origin {
    /// Returns the name of the origin.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Default => "default",
        }
    }
}

impl FromArgMatches for EffectiveOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let command = LogArgs::augment_args(ServeArgs::augment_args(Command::new("serve")));
        let options = command.get_arguments().filter_map(|arg| option(arg, matches));
        let options = options.chain(SECRETS.map(secret)).collect();
        Ok(Self { args: ServeArgs::from_arg_matches(matches)?, options })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for EffectiveOptions {
    fn augment_args(command: Command) -> Command {
        ServeArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        ServeArgs::augment_args_for_update(command)
    }
}

fn option(arg: &Arg, matches: &ArgMatches) -> Option<EffectiveOption> {
    let id = arg.get_id().as_str();
    let name = arg.get_long()?;
    let values = matches.try_get_raw(id).ok()?;
    let from = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => Origin::Flag,
        Some(ValueSource::EnvVariable) => Origin::Environment,
        Some(_) | None => Origin::Default,
    };
    let is_secret = arg.is_hide_env_values_set();
    let value = values.map(|values| {
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        if is_secret { HIDDEN.to_owned() } else { without_password(values.join(",")) }
    });
    let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
    if let (true, None, Some(variable)) = (is_secret, &value, &variable)
        && let Some(file) = of_file(variable)
    {
        return Some(EffectiveOption { option: Some(format!("--{name}")), ..file });
    }
    Some(EffectiveOption { option: Some(format!("--{name}")), variable, value, from })
}

/// A secret whose value is in a file, if the variable for the file is set.
fn of_file(name: &str) -> Option<EffectiveOption> {
    let file = file_variable(name);
    variable(&file)?;
    let (value, from) = (Some(HIDDEN.to_owned()), Origin::Environment);
    Some(EffectiveOption { option: None, variable: Some(file), value, from })
}

fn secret(name: &str) -> EffectiveOption {
    if let Some(file) = of_file(name) {
        return file;
    }
    let value = variable(name).map(|_| HIDDEN.to_owned());
    let from = if value.is_some() { Origin::Environment } else { Origin::Default };
    EffectiveOption { option: None, variable: Some(name.to_owned()), value, from }
}

/// Replaces the user name and password of a URL. Other values are returned unchanged.
fn without_password(value: String) -> String {
    match value.parse::<Url>() {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            let rest = value.rsplit_once('@').map_or("", |(_, rest)| rest);
            format!("{}://{HIDDEN}@{rest}", url.scheme())
        }
        Ok(_) | Err(_) => value,
    }
}

/// Returns the `TWOSTEP_` variables that no option of this program reads. Most of them are misspelt.
pub fn unknown_variables(program: &Command) -> Vec<String> {
    let mut known: BTreeSet<String> = SECRETS.map(str::to_owned).into();
    known.extend(SECRETS.into_iter().chain(SECRET_OPTIONS).map(file_variable));
    collect(program, &mut known);
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let ours = names.filter(|name| name.starts_with("TWOSTEP_") && !known.contains(name));
    ours.collect::<BTreeSet<_>>().into_iter().collect()
}

fn collect(command: &Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(Arg::get_env);
    known.extend(variables.map(|name| name.to_string_lossy().into_owned()));
    for inner in command.get_subcommands() {
        collect(inner, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        let shown = |value: &str| without_password(value.to_owned());
        assert_eq!(shown("https://me:geheim@host/a"), "https://***@host/a");
        assert_eq!(shown("https://me:ge@heim@host/a"), "https://***@host/a");
        assert_eq!(shown("https://host/a"), "https://host/a");
        assert_eq!(shown("127.0.0.1:8080"), "127.0.0.1:8080");
    }
}
