//! Iterators over the parts of a document.

use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, RefOr, Response};

use crate::http::auth;

pub(super) fn operations(document: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = document.paths.paths.values_mut();
    items.flat_map(|item| auth::operations(item).map(|(operation, _)| operation))
}

/// The responses that an operation describes itself, by status.
pub(super) fn own_responses(
    operation: &mut Operation,
) -> impl Iterator<Item = (&String, &mut Response)> {
    let all = operation.responses.responses.iter_mut();
    all.filter_map(|(status, response)| Some((status, own(response)?)))
}

/// The value itself, if it is not a reference.
pub(super) fn own<T>(described: &mut RefOr<T>) -> Option<&mut T> {
    match described {
        RefOr::T(own) => Some(own),
        RefOr::Ref(_) => None,
    }
}
