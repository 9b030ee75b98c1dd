//! `twostep doctor URL`: checks that streams pass the proxies in front of a service.

mod finding;
mod hints;
mod probe;
mod probes;
mod requests;

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
    /// Seconds without data that a stream must survive; the service sends a keep-alive every 10 s
    #[arg(long, default_value_t = 20, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=60))]
    idle: u64,
    /// Seconds that a reply may take; requests with `Prefer: wait` need up to 120 s
    #[arg(long, default_value_t = 65, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=120))]
    wait: u64,
    /// Origin of a web page that calls the service, such as `https://app.example`: its CORS headers are
    /// checked
    #[arg(long, value_name = "ORIGIN", value_parser = server_url)]
    origin: Option<Url>,
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
        let args = ServerArgs { server: server.clone(), key: self.key.clone(), is_open: false };
        let target = Target { http: builder(&args)?.build()?, base: server };
        let prefix = target.prefix().to_owned();
        let (json, proxies) = (self.json, Proxy::ALL.to_vec());
        let mut report = Report { json, fails: false, proxies, prefix };
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
        self.streams(&target, reached.took, &mut report).await;
        self.requests(&target, &mut report).await;
        Ok(if report.fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Checks streams.
    async fn streams(&self, target: &Target, reply: Duration, report: &mut Report) {
        self.progress("receiving evenly spaced events");
        probes::flow(target, reply).await.iter().for_each(|finding| report.say(finding));
        report.say(&probes::compressed(target).await);
        report.say(&probes::resume(target).await);
        report.say(&probes::location(target).await);
        self.progress("closing a stream");
        report.say(&probes::disconnect(target).await);
    }

    /// Checks requests and single replies. The checks that wait run at the same time.
    async fn requests(&self, target: &Target, report: &mut Report) {
        report.say(&requests::methods(target).await);
        self.progress("sending a large body");
        report.say(&requests::body(target).await);
        report.say(&requests::versions(target).await);
        requests::cors(target, self.origin.as_ref()).await.iter().for_each(|it| report.say(it));
        let prefer = requests::prefer(target).await;
        let waits = prefer.is_ok();
        report.say(&prefer);
        let seconds = if waits { self.idle.max(self.wait) } else { self.idle };
        self.progress(&format!("waiting {seconds} s without data"));
        let idle = probes::idle(target, Duration::from_secs(self.idle));
        let reply =
            async { if waits { Some(requests::reply(target, self.wait).await) } else { None } };
        let (idle, reply) = tokio::join!(idle, reply);
        report.say(&idle);
        if let Some(finding) = &reply {
            report.say(finding);
        }
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
    /// The path under which clients reach the service.
    prefix: String,
}

impl Report {
    fn say(&mut self, finding: &Finding) {
        self.fails |= finding.level == Level::Fail;
        for line in finding.lines(&self.proxies, &self.prefix, self.json) {
            if self.json {
                output::print_json(&line);
            } else {
                output::print_line(&line);
            }
        }
    }
}
