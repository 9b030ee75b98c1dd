//! The HTTP interface: routes, middleware and the router that assembles them.

mod adapters;
mod auth;
mod error;
mod extract;
mod openapi;
mod page;
mod resources;
mod routes;
mod run_response;
mod server;
mod state;
mod stream;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::{Router, middleware};
use tower_http::catch_panic::CatchPanicLayer;

use crate::metrics::Metrics;

pub use auth::MetricsAccess;
use extract::body::MAX_BODY;
pub use openapi::document;
use openapi::page::SCRIPT_PATH;
use routes::docs::get_docs_script;
pub use server::browser_guard::BrowserPolicy;
pub use server::forwarded::{BadBasePath, BadProxy, BasePath, Forwarding, TrustedProxies};
pub use server::readiness::{DatabaseProbe, FolderProbe, Health, ProbedPools};
pub use server::serve::{Site, Timeouts, serve};
pub use state::{Api, KEEP_ALIVE_INTERVAL, MAX_MESSAGE, Options};

/// The router of a process that serves the API.
pub fn router(api: Api) -> Router {
    let limit = server::rate_limit::RateLimit::new(api.options.rate_limit).map(Arc::new);
    let [v1, adapters] = [openapi::routes(), openapi::adapters()].map(|routes| {
        let (routes, document) = routes.split_for_parts();
        let parameters = Arc::new(server::query_parameters::QueryParameters::of(&document));
        let routes =
            routes.route_layer(from_fn_with_state(parameters, server::query_parameters::layer));
        let routes = match &limit {
            Some(limit) => {
                routes.route_layer(from_fn_with_state(Arc::clone(limit), server::rate_limit::layer))
            }
            None => routes,
        };
        routes.route_layer(from_fn_with_state(api.keyring.clone(), auth::layer))
    });
    let (pages, metrics) = (api.options.browser_policy.clone(), Arc::clone(&api.metrics));
    let (health, tasks) = (api.health.clone(), api.tasks.clone());
    // Clients should use the paths with the version prefix; those without are for manual requests.
    let router = Router::new()
        .merge(v1.clone())
        .nest("/v1", v1)
        .merge(adapters)
        .merge(operations(health))
        .merge(if api.options.page { page::routes() } else { Router::new() })
        .fallback(error::no_route)
        .method_not_allowed_fallback(error::no_method)
        .layer(middleware::from_fn(server::deadline::layer))
        .layer(from_fn_with_state(tasks, server::detached::layer))
        .with_state(Arc::new(api))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(from_fn_with_state(Arc::new(pages.clone()), server::browser_guard::layer))
        .layer(from_fn_with_state(metrics, server::request_id::layer));
    let router = if pages.origins.is_empty() {
        router
    } else {
        let cors = router.layer(server::cors::layer(&pages.origins));
        cors.layer(middleware::map_request(server::cors::keep_valid_names))
    };
    router.layer(middleware::from_fn(server::caching::layer))
}

/// The router of a process that only executes runs.
pub fn health_router(health: Health) -> Router {
    let metrics = Arc::clone(&health.metrics);
    finished(operations(health), metrics)
}

/// The router of the address that serves `/metrics` alone.
pub fn metrics_router(health: Health) -> Router {
    let metrics = Arc::clone(&health.metrics);
    let (metrics_routes, _) = openapi::metrics().split_for_parts();
    finished(metrics_routes.with_state(Arc::new(health)), metrics)
}

fn finished(routes: Router, metrics: Arc<Metrics>) -> Router {
    routes
        .fallback(error::no_route)
        .method_not_allowed_fallback(error::no_method)
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(from_fn_with_state(metrics, server::request_id::layer))
        .layer(middleware::from_fn(server::caching::layer))
}

fn operations<S: Clone + Send + Sync + 'static>(health: Health) -> Router<S> {
    let mut operations = openapi::operations();
    if health.serves_metrics {
        operations = operations.merge(openapi::metrics());
    }
    let (operations, _) = operations.split_for_parts();
    operations.route(SCRIPT_PATH, get(get_docs_script)).with_state(Arc::new(health))
}
