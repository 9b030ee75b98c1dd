//! `twostep doctor URL`: whether streams come through what stands before a service.

mod finding;
mod hints;
mod probe;
mod probes;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Url;
use secrecy::SecretString;

use crate::cli::client::{ServerArgs, builder, place, server_url};
use crate::cli::output;
use crate::cli::status::UNREACHABLE;
use crate::cli::terminal::Terminals;
use finding::{Finding, Level};
use hints::Proxy;
use probe::Way;

#[derive(Debug, Args)]
pub(super) struct Service {
    /// A service, to look at what stands before it; else the machine is looked at
    #[arg(value_name = "URL", value_parser = server_url)]
    url: Option<Url>,
    /// A key of its API. The variable is the better place: others can read arguments
    #[arg(long, env = "TWOSTEP_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<SecretString>,
    /// Seconds of silence that a stream is to survive; the service itself is never silent for
    /// longer than 15
    #[arg(long, default_value_t = 20, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=60))]
    idle: u64,
    /// Print JSON, an object a line
    #[arg(long)]
    pub(super) json: bool,
}

impl Service {
    pub(super) fn is_named(&self) -> bool {
        self.url.is_some()
    }

    /// The status is 0 if streams come through, 1 if they do not, 4 if nobody answers.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let Some(server) = self.url.clone() else { return Ok(ExitCode::FAILURE) };
        let args = ServerArgs { server: server.clone(), key: self.key.clone() };
        let way = Way { http: builder(&args)?.build()?, base: server };
        let mut report = Report { json: self.json, fails: false, proxies: Proxy::ALL.to_vec() };
        let reached = match probes::reach(&way).await {
            Ok(reached) => reached,
            Err(error) => {
                report.say(&Finding::fail("reached", error.why));
                let status = if error.is_away { UNREACHABLE } else { 1 };
                return Ok(ExitCode::from(status));
            }
        };
        report.proxies = reached.proxies;
        reached.findings.iter().for_each(|finding| report.say(finding));
        self.progress("sending an even flow of events");
        probes::flow(&way).await.iter().for_each(|finding| report.say(finding));
        report.say(&probes::compressed(&way).await);
        report.say(&probes::resume(&way).await);
        report.say(&probes::location(&way).await);
        self.progress("leaving a stream");
        report.say(&probes::leave(&way).await);
        self.progress(&format!("listening to {} s of silence", self.idle));
        report.say(&probes::idle(&way, Duration::from_secs(self.idle)).await);
        Ok(if report.fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn progress(&self, what: &str) {
        if Terminals::look().words && !self.json {
            let place = self.url.as_ref().map(place).unwrap_or_default();
            output::complain(&format!("\u{1b}[2m{place}: {what}\u{1b}[0m"));
        }
    }
}

/// What is said of the findings.
struct Report {
    json: bool,
    fails: bool,
    proxies: Vec<Proxy>,
}

impl Report {
    fn say(&mut self, finding: &Finding) {
        self.fails |= finding.level == Level::Fail;
        for line in finding.lines(&self.proxies, self.json) {
            output::say(&line);
        }
    }
}
