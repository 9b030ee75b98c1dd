//! The OpenAPI document, the API page, and the examples of the documentation.

mod browser_back_ends;
mod containers;
mod curl_examples;
mod docs_page;
mod event_source;
mod openapi;
mod openapi_members;
mod openapi_operations;
mod readme;
