//! `twostep doctor URL`: checks that streams pass the proxies in front of a service.

mod finding;
mod hints;
mod probe;
mod probes;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Url;
use secrecy::SecretString;

use crate::cli::client::{ServerArgs, builder, display_url, server_url};
use crate::cli::output;
use crate::cli::status::UNREACHABLE;
use crate::cli::terminal::Terminals;
use finding::{Finding, Level};
use hints::Proxy;
use probe::Target;

#[derive(Debug, Args)]
pub(super) struct Service {
    /// URL of a service whose proxies are checked [default: this machine is checked]
    #[arg(value_name = "URL", value_parser = server_url)]
    url: Option<Url>,
    /// API key. Prefer the variable, because other users of the machine can read arguments
    #[arg(long, env = "TWOSTEP_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<SecretString>,
    /// Seconds without data that a stream must survive; the service sends a keep-alive every 15 s
    #[arg(long, default_value_t = 20, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=60))]
    idle: u64,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(super) json: bool,
}

impl Service {
    pub(super) fn is_named(&self) -> bool {
        self.url.is_some()
    }

    /// Runs the checks. The exit status is 0 if streams pass, 1 if they do not, and 4 if the service
    /// cannot be reached.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let Some(server) = self.url.clone() else { return Ok(ExitCode::FAILURE) };
        let args = ServerArgs { server: server.clone(), key: self.key.clone() };
        let target = Target { http: builder(&args)?.build()?, base: server };
        let mut report = Report { json: self.json, fails: false, proxies: Proxy::ALL.to_vec() };
        let reached = match probes::reach(&target).await {
            Ok(reached) => reached,
            Err(error) => {
                report.say(&Finding::fail("reached", error.why));
                let status = if error.is_unavailable { UNREACHABLE } else { 1 };
                return Ok(ExitCode::from(status));
            }
        };
        report.proxies = reached.proxies;
        reached.findings.iter().for_each(|finding| report.say(finding));
        self.progress("receiving evenly spaced events");
        probes::flow(&target).await.iter().for_each(|finding| report.say(finding));
        report.say(&probes::compressed(&target).await);
        report.say(&probes::resume(&target).await);
        report.say(&probes::location(&target).await);
        self.progress("closing a stream");
        report.say(&probes::disconnect(&target).await);
        self.progress(&format!("waiting {} s without data", self.idle));
        report.say(&probes::idle(&target, Duration::from_secs(self.idle)).await);
        Ok(if report.fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn progress(&self, step: &str) {
        if Terminals::detect().messages && !self.json {
            let url = self.url.as_ref().map(display_url).unwrap_or_default();
            output::print_faint(&format!("{url}: {step}"));
        }
    }
}

/// The printer of the findings.
struct Report {
    json: bool,
    fails: bool,
    proxies: Vec<Proxy>,
}

impl Report {
    fn say(&mut self, finding: &Finding) {
        self.fails |= finding.level == Level::Fail;
        for line in finding.lines(&self.proxies, self.json) {
            if self.json {
                output::print_json(&line);
            } else {
                output::print_line(&line);
            }
        }
    }
}
