//! A cache of recently read pages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::FetchedPage;

/// The maximum age of a cached page.
const MAX_AGE: Duration = Duration::from_mins(15);
/// The maximum total size, in bytes, and the maximum number of cached pages.
const MAX_BYTES: usize = 32 * 1024 * 1024;
const MAX_PAGES: usize = 1000;

/// Pages by reader and URL, the oldest first. Users do not share pages.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<VecDeque<CachedPage>>);

#[derive(Debug)]
struct CachedPage {
    owner: String,
    url: String,
    at: Instant,
    page: Arc<FetchedPage>,
}

impl CachedPage {
    fn bytes(&self) -> usize {
        self.page.text.len() + self.page.url.len() + self.url.len()
    }
}

impl Cache {
    /// Returns a page that the same user has read recently.
    pub(super) fn find(&self, owner: &str, url: &str) -> Option<Arc<FetchedPage>> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let matches_key = |cached: &&CachedPage| cached.owner == owner && cached.url == url;
        let cached = pages.iter().rev().find(matches_key)?;
        (cached.at.elapsed() < MAX_AGE).then(|| Arc::clone(&cached.page))
    }

    /// Stores a page, and removes the oldest pages if a limit is exceeded.
    pub(super) fn insert(&self, owner: String, url: String, page: Arc<FetchedPage>) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|cached| {
            (cached.owner != owner || cached.url != url) && cached.at.elapsed() < MAX_AGE
        });
        pages.push_back(CachedPage { owner, url, at: Instant::now(), page });
        let mut bytes: usize = pages.iter().map(CachedPage::bytes).sum();
        while bytes > MAX_BYTES || pages.len() > MAX_PAGES {
            bytes -= pages.pop_front().map_or(bytes, |cached| cached.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: String) -> Arc<FetchedPage> {
        let (url, title) = ("https://example.com/".to_owned(), String::new());
        Arc::new(FetchedPage { url, title, text })
    }

    fn insert(cache: &Cache, owner: &str, url: &str, text: &str) {
        cache.insert(owner.to_owned(), url.to_owned(), page(text.to_owned()));
    }

    fn found(cache: &Cache, owner: &str, url: &str) -> Option<String> {
        cache.find(owner, url).map(|page| page.text.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_cached_for_a_limited_time_and_for_its_reader_only() {
        let cache = Cache::default();
        insert(&cache, "a", "u", "old");
        insert(&cache, "a", "u", "new");
        tokio::time::advance(MAX_AGE.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(found(&cache, "a", "u").as_deref(), Some("new"));
        assert_eq!([found(&cache, "b", "u"), found(&cache, "a", "v")], [None, None]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(found(&cache, "a", "u"), None);
    }

    #[tokio::test]
    async fn the_oldest_pages_are_evicted() {
        let cache = Cache::default();
        for n in 0..=MAX_PAGES {
            insert(&cache, "a", &n.to_string(), "");
        }
        assert_eq!([found(&cache, "a", "0"), found(&cache, "a", "1")], [None, Some(String::new())]);
        let large = "x".repeat(MAX_BYTES / 2);
        for n in ["large 0", "large 1"] {
            insert(&cache, "a", n, &large);
        }
        assert_eq!([found(&cache, "a", "1000"), found(&cache, "a", "large 0")], [None, None]);
        assert_eq!(found(&cache, "a", "large 1"), Some(large));
    }
}
