//! The known models and their capabilities.

use std::sync::Arc;

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
    /// The name, as in a session's `model`. Of a model of a named provider it begins with the name of the
    /// provider and a slash.
    id: String,
    /// The protocol of its server.
    provider: Provider,
    /// True if this is the default model of new sessions.
    default: bool,
    /// True if the server reports the model; absent if the server has not listed its models.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<bool>,
    /// The capabilities. Unknown capabilities are absent, and are not checked before a request; so are
    /// capabilities that the provider's protocol does not support.
    capabilities: Capabilities,
    /// The kinds of content that messages for the model may have: `text`, and `image` and `pdf` if the
    /// model is known to accept them.
    inputs: Vec<&'static str>,
    /// Features of this service that the provider's protocol or the model does not support.
    lacks: Vec<&'static str>,
    /// The price of a million tokens of each kind, in micro-dollars; absent if the operator has not
    /// set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<Price>,
}

/// Lists the known models with their capabilities.
///
/// Sessions may use other models; requests for them are not checked before they are sent.
#[utoipa::path(
    get, path = "/models", operation_id = "list_models", tag = "models",
    responses((status = 200, description = "The known models.", body = Page<ModelResource>))
)]
pub(in crate::http) async fn list_models(
    State(api): State<Arc<Api>>,
    _caller: Caller,
) -> Json<Page<ModelResource>> {
    let (models, default) = (&api.service.defaults.model_rules.models, &api.service.defaults.model);
    let mut names = models.list();
    if names.iter().all(|(name, _)| name != default) {
        names.push((default.clone(), None));
    }
    let resource = |(id, available): (String, Option<bool>)| {
        let model = models.locate(&id);
        let capabilities = models.find_usable(model);
        let mut lacks = capabilities.lacks();
        let mut others = models.lacks(model);
        others.retain(|name| !lacks.contains(name));
        lacks.splice(0..0, others);
        ModelResource {
            r#type: "model",
            provider: models.protocol(model),
            default: id == *default,
            available,
            inputs: capabilities.inputs(),
            lacks,
            capabilities,
            price: api.service.defaults.prices.current().get(&id).copied(),
            id,
        }
    };
    let data = names.into_iter().map(resource).collect();
    Json(Page::whole(data))
}
