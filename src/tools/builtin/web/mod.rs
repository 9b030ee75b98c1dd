//! Web pages and web search.

mod cache;
mod page;
pub(super) mod reading;
pub(super) mod search;

use std::sync::Arc;

use reqwest::Url;

use super::blocking;
use crate::domain::source::Source;
use crate::outbound::{AllowedHosts, BadBody, MAX_PAGE, Outbound, PAGE_TIMEOUT, Page, PageError};
use crate::tools::error::ToolError;
use crate::tools::pdf;
use cache::Cache;
use page::PageText;

/// The HTTP client for pages and the cache of recently read pages.
#[derive(Debug)]
pub struct Web {
    outbound: Outbound,
    cache: Cache,
    documents: pdf::Reader,
}

/// A page that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FetchedPage {
    /// The URL after redirects.
    pub(super) url: String,
    /// The title of an HTML page; may be empty.
    pub(super) title: String,
    /// The text of the page.
    pub(super) text: String,
}

impl FetchedPage {
    /// The page as a source of the model's answer.
    pub(super) fn source(&self) -> Source {
        Source::web(&self.title, &self.url)
    }
}

impl Web {
    /// Creates a client that reads pages of the hosts that the operator allows.
    pub fn new(hosts: AllowedHosts) -> reqwest::Result<Self> {
        let outbound = Outbound::new(hosts, PAGE_TIMEOUT)?;
        Ok(Self { outbound, cache: Cache::default(), documents: pdf::Reader::default() })
    }

    /// Sets the reader for PDF documents.
    #[must_use]
    pub fn with_documents(self, documents: pdf::Reader) -> Self {
        Self { documents, ..self }
    }

    /// Returns `true` if the page, or any page if the URL is not known, may be one of a private
    /// network, while pages of the public internet can be fetched as well.
    pub(super) fn may_be_private(&self, url: Option<&Url>) -> bool {
        match url {
            Some(url) => self.outbound.is_listed_beside_public(url),
            None => self.outbound.has_listed_beside_public(),
        }
    }

    /// Reads a page on behalf of a user.
    pub(super) async fn read(
        &self,
        owner: String,
        url: Url,
    ) -> Result<Arc<FetchedPage>, ToolError> {
        let key = url.to_string();
        if let Some(read) = self.cache.find(&owner, &key) {
            return Ok(read);
        }
        let page = self.outbound.page(url).await.map_err(|error| {
            tracing::info!(%error, "page could not be read");
            failed(&error)
        })?;
        let url = page.url.to_string();
        let PageText { title, mut text } = self.text(page).await?;
        // HTML ignores NUL, and a text in another encoding is full of them.
        text.retain(|c| c != '\0');
        let read = Arc::new(FetchedPage { url, title, text });
        self.cache.insert(owner, key, Arc::clone(&read));
        Ok(read)
    }

    /// Extracts the text of a page.
    async fn text(&self, page: Page) -> Result<PageText, ToolError> {
        if page::is_pdf(page.content_type.as_deref(), &page.body) {
            let document = self.documents.read(&page.body, MAX_PAGE).await;
            let document = document.map_err(|error| {
                ToolError::Failed(error_text(&format!("the PDF could not be read: {error}")))
            })?;
            return Ok(PageText { title: String::new(), text: document.with_page_numbers() });
        }
        blocking(move || {
            page::text(page.content_type.as_deref(), &page.body, &page.url)
                .map_err(|error| ToolError::Failed(error_text(&error.to_string())))
        })
        .await
    }
}

/// Maps errors to tool errors. A host in a private network fails as a host that does not exist, so
/// that the error reveals nothing about the network.
fn failed(error: &PageError) -> ToolError {
    match error {
        // A server that stops in the middle of a page is as slow as one that never begins.
        PageError::Body(BadBody::Broken(broken)) if broken.is_timeout() => slow(),
        PageError::Refused(_)
        | PageError::Port
        | PageError::Redirects
        | PageError::Location
        | PageError::Unreachable(_)
        | PageError::Body(BadBody::Broken(_)) => ToolError::Network(error_text("fetch failed")),
        PageError::Slow => slow(),
        PageError::Status(status) => {
            ToolError::Failed(error_text(&format!("the page answered with status {status}")))
        }
        PageError::Body(error @ (BadBody::Large(_) | BadBody::Compressed)) => {
            ToolError::Failed(error_text(&error.to_string()))
        }
    }
}

fn slow() -> ToolError {
    let seconds = PAGE_TIMEOUT.as_secs();
    ToolError::Timeout(error_text(&format!("the page was not received within {seconds} s")))
}

fn error_text(why: &str) -> String {
    format!("Error calling tool (WebFetch): {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_does_not_arrive_in_time_is_a_timeout_and_no_network_error() {
        let expected = error_text("the page was not received within 20 s");
        assert_eq!(failed(&PageError::Slow), ToolError::Timeout(expected));
    }
}
