//! Reloading of the operator's files while the process runs.

use std::sync::Arc;

use anyhow::Context as _;

use crate::config::{FileContents, Listen, ReloadableFiles};
use crate::domain::permission::Rule;
use crate::domain::price::Prices;
use crate::domain::reloadable::Reloadable;
use crate::service::{Defaults, OperatorAgents, Service, check_operator_agents};
use crate::tools::policy::OperatorPolicy;

/// The settings of a process that it can read again.
#[derive(Debug, Clone)]
pub struct Reloader {
    files: ReloadableFiles,
    rules: Reloadable<Vec<Rule>>,
    /// The settings of the API, and its use cases, which check agents.
    api: Option<ApiSettings>,
}

#[derive(Debug, Clone)]
struct ApiSettings {
    agents: Reloadable<OperatorAgents>,
    prices: Reloadable<Prices>,
    service: Option<Arc<Service>>,
}

impl Reloader {
    pub(super) fn new(files: ReloadableFiles, policy: &OperatorPolicy, listen: &Listen) -> Self {
        let api = match listen {
            Listen::Api(serve) => {
                let Defaults { agents, prices, .. } = &serve.service.defaults;
                let (agents, prices) = (agents.clone(), prices.clone());
                Some(ApiSettings { agents, prices, service: None })
            }
            Listen::Health(_) | Listen::Nowhere => None,
        };
        Self { files, rules: policy.rules.clone(), api }
    }

    /// Names the use cases of the process, when they exist.
    pub(super) fn with_service(mut self, service: Option<Arc<Service>>) -> Self {
        if let Some(api) = &mut self.api {
            api.service = service;
        }
        self
    }

    /// Reads the files again. The content of a valid file replaces the previous content, which stays
    /// if the file is not valid. One log line reports the outcome.
    pub async fn reload(&self) {
        let files = self.files.clone();
        let contents = match tokio::task::spawn_blocking(move || files.read()).await {
            Ok(contents) => contents,
            Err(error) => return tracing::error!(%error, "configuration files not read"),
        };
        let FileContents { agents, prices, permission_rules } = contents;
        let mut report = Report::default();
        report.add("--permission-rules", permission_rules, |rules| self.rules.replace(rules));
        if let Some(api) = &self.api {
            report.add("--prices", prices, |prices| api.prices.replace(prices));
            let agents = match agents {
                Some(agents) => Some(api.checked(agents).await),
                None => None,
            };
            report.add("--agents", agents, |agents| api.agents.replace(agents));
        }
        report.log();
    }
}

impl ApiSettings {
    /// The agents, if sessions can be created from all of them.
    async fn checked(
        &self,
        agents: anyhow::Result<OperatorAgents>,
    ) -> anyhow::Result<OperatorAgents> {
        let agents = agents?;
        if let Some(service) = &self.service {
            check_operator_agents(service, &agents).await.context("the agents cannot be used")?;
        }
        Ok(agents)
    }
}

/// The outcome of a reload, option by option.
#[derive(Debug, Default)]
struct Report {
    replaced: Vec<&'static str>,
    kept: Vec<String>,
}

impl Report {
    fn add<T>(
        &mut self,
        option: &'static str,
        content: Option<anyhow::Result<T>>,
        replace: impl FnOnce(T),
    ) {
        match content {
            None => {}
            Some(Ok(content)) => {
                replace(content);
                self.replaced.push(option);
            }
            Some(Err(error)) => self.kept.push(format!("{option}: {error:#}")),
        }
    }

    fn log(&self) {
        let replaced = self.replaced.join(", ");
        if self.replaced.is_empty() && self.kept.is_empty() {
            tracing::info!("no configuration files to reload");
        } else if self.kept.is_empty() {
            tracing::info!(%replaced, "configuration files reloaded");
        } else {
            let error = self.kept.join("; ");
            let replaced = (!self.replaced.is_empty()).then_some(replaced);
            tracing::error!(
                replaced, %error,
                "configuration files not reloaded completely; the previous content stays in use"
            );
        }
    }
}
