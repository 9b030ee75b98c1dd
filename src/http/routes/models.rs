//! Which models there are, and what they accept.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::domain::model::Capabilities;
use crate::domain::price::Price;
use crate::domain::provider::Provider;
use crate::http::auth::Caller;
use crate::http::resources::Page;
use crate::http::state::Api;

/// One model.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ModelResource {
    /// `model`.
    r#type: &'static str,
    /// The name, for a session's `model`.
    id: String,
    /// Whose protocol its server speaks.
    provider: Provider,
    /// Whether sessions that name no model have it.
    default: bool,
    /// Whether the server says that it has it; absent when it has not told which it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<bool>,
    /// What it accepts. What is not known is absent, and not checked before a request; so is what
    /// the provider's protocol has no place for.
    capabilities: Capabilities,
    /// What the service knows and the provider's protocol has no place for.
    lacks: &'static [&'static str],
    /// What its tokens cost, in micro-dollars for a million of each kind; absent where the
    /// operator has not said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<Price>,
}

/// Lists the models that are known, with what they accept.
///
/// Any other name may be tried: nothing is checked for it before the model does so itself.
#[utoipa::path(
    get, path = "/models", operation_id = "list_models", tag = "models",
    responses((status = 200, description = "All known models.", body = Page<ModelResource>))
)]
pub(in crate::http) async fn list_models(
    State(api): State<Api>,
    _caller: Caller,
) -> Json<Page<ModelResource>> {
    let (models, default) = (&api.defaults.model_rules.models, &api.defaults.model);
    let mut names = models.list();
    if names.iter().all(|(name, _)| name != default) {
        names.push((default.clone(), None));
    }
    let resource = |(id, available): (String, Option<bool>)| ModelResource {
        r#type: "model",
        provider: models.provider(),
        default: id == *default,
        available,
        capabilities: models.find_usable(&id),
        lacks: models.provider().lacks(),
        price: api.defaults.prices.get(&id).copied(),
        id,
    };
    let data = names.into_iter().map(resource).collect();
    Json(Page::whole(data))
}
