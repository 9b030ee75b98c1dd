//! The addresses that the process listens at, and the routers that it serves there.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::database::Pools;
use super::request_body::assemble;
use crate::bus::Bus;
use crate::config::{Listen, Serve};
use crate::http::{
    Api, Forwarding, Health, MetricsAccess, Site, Timeouts, health_router, metrics_router, router,
    serve,
};
use crate::metrics::Metrics;
use crate::service::{Options, Parts, Service, check_operator_agents, watch_changes};
use crate::store::connections::{Connections, TenantConnections};
use crate::tokens::Issuer;
use crate::tools::Registry;
use crate::tools::policy::OperatorPolicy;

/// The parts of the service that the worker also uses.
#[derive(Debug)]
pub(super) struct Shared {
    pool: TenantConnections,
    bus: Arc<Bus>,
    tools: Arc<Registry>,
    permissions: Arc<OperatorPolicy>,
    workspaces: Arc<Path>,
}

impl Shared {
    pub(super) fn new(
        pools: &Pools,
        bus: &Arc<Bus>,
        tools: Arc<Registry>,
        permissions: Arc<OperatorPolicy>,
        workspaces: &Path,
    ) -> Self {
        let (pool, bus) = (pools.api.clone(), Arc::clone(bus));
        Self { pool, bus, tools, permissions, workspaces: workspaces.into() }
    }

    pub(super) fn into_service(
        self,
        admission_pool: Connections,
        metrics: Arc<Metrics>,
        options: Options,
    ) -> Service {
        let Self { pool, bus, tools, permissions, workspaces } = self;
        Service::new(Parts {
            pool,
            admission_pool,
            bus,
            tools,
            permissions,
            options,
            metrics,
            assemble,
            workspaces,
        })
    }
}

/// A bound address, and the router that is served there.
#[derive(Debug)]
pub(super) struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    site: Site,
    posts: TaskTracker,
    /// The identity provider whose tokens are accepted; its keys are refreshed.
    issuer: Option<Arc<Issuer>>,
    /// The use cases of the API.
    service: Option<Arc<Service>>,
}

impl Listening {
    /// Binds the configured address, if there is one.
    pub(super) async fn open(
        listen: Listen,
        health: Health,
        shared: Shared,
    ) -> anyhow::Result<Option<Self>> {
        let draining = health.draining.clone();
        match listen {
            Listen::Api(serve) => {
                let Serve { bind, service, mut http, forwarding, .. } = *serve;
                let (timeouts, issuer) = (http.timeouts, http.tokens.clone());
                let (pool, metrics) = (health.pool.clone(), Arc::clone(&health.metrics));
                let service = Arc::new(shared.into_service(pool, metrics, service));
                check_agents(&service).await?;
                let (listener, address) = listen_at(bind).await?;
                http.browser_policy.port = address.port();
                let api = Api::new(health, Arc::clone(&service), http);
                let posts = api.tasks.clone();
                let site = site(router(api), (forwarding, timeouts), &draining);
                let service = Some(service);
                Ok(Some(Self { listener, address, site, posts, issuer, service }))
            }
            Listen::Health(bind) => {
                Ok(Some(Self::of(bind, plain(health_router(health), &draining)).await?))
            }
            Listen::Nowhere => Ok(None),
        }
    }

    /// Binds the separate address of `/metrics`, if one is configured.
    pub(super) async fn for_metrics(
        bind: Option<SocketAddr>,
        health: &Health,
    ) -> anyhow::Result<Option<Self>> {
        let Some(bind) = bind else { return Ok(None) };
        // The operator chose this address for metrics alone.
        let health = Health { metrics_access: MetricsAccess::Open, ..health.clone() };
        let site = plain(metrics_router(health.clone()), &health.draining);
        Ok(Some(Self::of(bind, site).await?))
    }

    /// An address for operators.
    async fn of(bind: SocketAddr, site: Site) -> anyhow::Result<Self> {
        let (listener, address) = listen_at(bind).await?;
        Ok(Self { listener, address, site, posts: TaskTracker::new(), issuer: None, service: None })
    }

    /// The use cases of the API, if this address serves it.
    pub(super) fn service(&self) -> Option<Arc<Service>> {
        self.service.clone()
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process stops. Returns the server, and the requests that continue after
    /// their clients have disconnected.
    pub(super) fn start(
        self,
        tasks: &TaskTracker,
        draining: &CancellationToken,
    ) -> (JoinHandle<()>, TaskTracker) {
        if let Some(issuer) = self.issuer {
            let stop = draining.clone();
            tasks.spawn(async move { issuer.refresh_keys(stop).await });
        }
        if let Some(service) = self.service {
            tasks.spawn(watch_changes(service, draining.clone()));
        }
        (tasks.spawn(serve(self.listener, self.site)), self.posts)
    }
}

/// Checks that sessions can be created from the operator's agents.
pub(super) async fn check_agents(service: &Service) -> anyhow::Result<()> {
    check_operator_agents(service, &service.defaults.agents.current())
        .await
        .context("the agents of --agents cannot be used")
}

async fn listen_at(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("the address {address} cannot be bound"))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn site(router: Router, rules: (Forwarding, Timeouts), draining: &CancellationToken) -> Site {
    let (forwarding, timeouts) = rules;
    Site { router, forwarding, timeouts, draining: draining.clone() }
}

/// The routes for operators, without a base path and with the default timeouts.
fn plain(router: Router, draining: &CancellationToken) -> Site {
    site(router, (Forwarding::default(), Timeouts::default()), draining)
}
