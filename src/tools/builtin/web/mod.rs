//! The web: pages as the model reads them, and who finds them.

mod cache;
mod page;
pub(super) mod reading;
pub(super) mod search;

use std::sync::Arc;

use reqwest::Url;

use super::blocking;
use crate::outbound::{AllowedHosts, BadBody, MAX_PAGE, NoPage, Outbound, PAGE_TIMEOUT, Page};
use crate::tools::{ToolError, pdf};
use cache::Cache;

/// The way to pages, and those that were read a moment ago.
#[derive(Debug)]
pub struct Web {
    outbound: Outbound,
    cache: Cache,
    documents: pdf::Reader,
}

/// A page that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    /// Where it was in the end.
    pub(super) url: String,
    /// What it says.
    pub(super) text: String,
}

impl Web {
    /// The web, as far as the operator lets pages be read.
    pub fn new(hosts: AllowedHosts) -> reqwest::Result<Self> {
        let outbound = Outbound::new(hosts, PAGE_TIMEOUT)?;
        Ok(Self { outbound, cache: Cache::default(), documents: pdf::Reader::default() })
    }

    /// The same with this reader of PDF documents.
    #[must_use]
    pub fn with_documents(self, documents: pdf::Reader) -> Self {
        Self { documents, ..self }
    }

    /// Reads a page for somebody.
    pub(super) async fn read(&self, owner: String, url: Url) -> Result<Arc<Read>, ToolError> {
        let place = url.to_string();
        if let Some(read) = self.cache.find(&owner, &place) {
            return Ok(read);
        }
        let page = self.outbound.page(url).await.map_err(|error| {
            tracing::info!(%error, "a page was not read");
            failed(&error)
        })?;
        let url = page.url.to_string();
        let read = Arc::new(Read { url, text: self.text(page).await? });
        self.cache.keep(owner, place, Arc::clone(&read));
        Ok(read)
    }

    /// What a page says.
    async fn text(&self, page: Page) -> Result<String, ToolError> {
        if page::is_pdf(page.content_type.as_deref(), &page.body) {
            let document = self.documents.read(&page.body, MAX_PAGE).await;
            return document.map(|document| document.with_page_numbers()).map_err(|error| {
                ToolError::Failed(told(&format!("the PDF could not be read: {error}")))
            });
        }
        blocking(move || {
            page::text(page.content_type.as_deref(), &page.body, &page.url)
                .map_err(|error| ToolError::Failed(told(&error.to_string())))
        })
        .await
    }
}

/// What the model is told. Nobody learns from it what there is in a network that is not
/// everybody's: a host there fails like one that does not exist.
fn failed(error: &NoPage) -> ToolError {
    match error {
        NoPage::Refused(_)
        | NoPage::Port
        | NoPage::Redirects
        | NoPage::Location
        | NoPage::Unreachable(_)
        | NoPage::Body(BadBody::Broken(_)) => ToolError::Network(told("fetch failed")),
        NoPage::Slow => {
            let seconds = PAGE_TIMEOUT.as_secs();
            ToolError::Timeout(told(&format!("the page did not come within {seconds} s")))
        }
        NoPage::Status(status) => {
            ToolError::Failed(told(&format!("the page answered with status {status}")))
        }
        NoPage::Body(error @ (BadBody::Large(_) | BadBody::Compressed)) => {
            ToolError::Failed(told(&error.to_string()))
        }
    }
}

fn told(why: &str) -> String {
    format!("Error calling tool (WebFetch): {why}")
}
