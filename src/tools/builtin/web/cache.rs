//! Pages that were read a moment ago.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Read;

/// How long a page is shown again.
const KEPT_FOR: Duration = Duration::from_mins(15);
/// Bytes of pages, and their number.
const MAX_BYTES: usize = 32 * 1024 * 1024;
const MAX_PAGES: usize = 1000;

/// Pages by who read them and where they are, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    owner: String,
    url: String,
    at: Instant,
    page: Arc<Read>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.page.text.len() + self.page.url.len() + self.url.len()
    }
}

impl Cache {
    /// A page, if its owner has read it not long ago.
    pub(super) fn find(&self, owner: &str, url: &str) -> Option<Arc<Read>> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |kept: &&Kept| kept.owner == owner && kept.url == url;
        let kept = pages.iter().rev().find(is_it)?;
        (kept.at.elapsed() < KEPT_FOR).then(|| Arc::clone(&kept.page))
    }

    /// Keeps a page, for a while and as long as there is room.
    pub(super) fn keep(&self, owner: String, url: String, page: Arc<Read>) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|kept| {
            (kept.owner != owner || kept.url != url) && kept.at.elapsed() < KEPT_FOR
        });
        pages.push_back(Kept { owner, url, at: Instant::now(), page });
        let mut bytes: usize = pages.iter().map(Kept::bytes).sum();
        while bytes > MAX_BYTES || pages.len() > MAX_PAGES {
            bytes -= pages.pop_front().map_or(bytes, |kept| kept.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: String) -> Arc<Read> {
        Arc::new(Read { url: "https://example.com/".to_owned(), text })
    }

    fn keep(cache: &Cache, owner: &str, url: &str, text: &str) {
        cache.keep(owner.to_owned(), url.to_owned(), page(text.to_owned()));
    }

    fn found(cache: &Cache, owner: &str, url: &str) -> Option<String> {
        cache.find(owner, url).map(|page| page.text.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_shown_again_for_a_while_and_to_who_read_it() {
        let cache = Cache::default();
        keep(&cache, "a", "u", "old");
        keep(&cache, "a", "u", "new");
        tokio::time::advance(KEPT_FOR.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(found(&cache, "a", "u").as_deref(), Some("new"));
        assert_eq!([found(&cache, "b", "u"), found(&cache, "a", "v")], [None, None]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(found(&cache, "a", "u"), None);
    }

    #[tokio::test]
    async fn the_oldest_pages_make_room() {
        let cache = Cache::default();
        for n in 0..=MAX_PAGES {
            keep(&cache, "a", &n.to_string(), "");
        }
        assert_eq!([found(&cache, "a", "0"), found(&cache, "a", "1")], [None, Some(String::new())]);
        let large = "x".repeat(MAX_BYTES / 2);
        for n in ["large 0", "large 1"] {
            keep(&cache, "a", n, &large);
        }
        assert_eq!([found(&cache, "a", "1000"), found(&cache, "a", "large 0")], [None, None]);
        assert_eq!(found(&cache, "a", "large 1"), Some(large));
    }
}
