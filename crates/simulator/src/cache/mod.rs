//! A prompt cache: computes the tokens that a request reads from it and writes to it.
//!
//! Each marker writes an entry under the hash of the whole prefix. A read checks a limited number
//! of blocks before each marker. Each level (tools, system, messages) depends on other settings: a
//! change of the tool choice, for example, invalidates only the messages.

mod layout;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::models::Model;
use super::render::BYTES_PER_TOKEN;
use super::request::ApiRequest;
use layout::{Block, Key, layout};

/// Number of blocks that a read checks for each marker, including the marked block.
const LOOKBACK: usize = 20;
/// Maximum number of entries. At the limit the cache drops expired entries, or else all.
const MAX_ENTRIES: usize = 100_000;

/// The input tokens of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Input {
    /// Neither read from the cache nor written to it.
    pub(crate) uncached: usize,
    /// Read from the cache.
    pub(crate) read: usize,
    /// Written with a lifetime of five minutes.
    pub(crate) written_5m: usize,
    /// Written with a lifetime of one hour.
    pub(crate) written_1h: usize,
}

impl Input {
    /// The input of a body of `bytes` bytes, without a cache.
    pub(crate) fn of_size(bytes: usize) -> Self {
        Self { uncached: bytes / BYTES_PER_TOKEN + 1, ..Self::default() }
    }
}

/// The entries of the cache, and its clock.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: Mutex<HashMap<Key, Entry>>,
    began: Instant,
    /// Milliseconds that tests added to the clock.
    skipped: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    ttl: Duration,
    until: Duration,
}

impl Default for Cache {
    fn default() -> Self {
        Self { entries: Mutex::default(), began: Instant::now(), skipped: AtomicU64::new(0) }
    }
}

impl Cache {
    /// Advances the clock of the cache.
    pub(crate) fn advance_clock(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.skipped.fetch_add(millis, Ordering::Relaxed);
    }

    /// Looks up and stores the prefixes of a request with `bytes` bytes. The lookup comes first.
    pub(crate) fn take(&self, request: ApiRequest<'_>, bytes: usize) -> Input {
        let blocks = layout(request);
        let least = Model::find(request.model()).map_or(0, Model::least_cached);
        let is_long_enough = |block: &&Block| tokens(block) >= least;
        let now = self.now();
        let mut entries = self.entries();
        let found = find(&blocks, &mut entries, now);
        let read = found.and_then(|at| blocks.get(at)).map_or(0, tokens);
        let mut input = Input { read, ..Input::default() };
        for block in blocks.iter().filter(is_long_enough) {
            let Some(ttl) = block.ttl else { continue };
            let new = tokens(block).saturating_sub(input.read + input.written());
            if ttl > Duration::from_mins(5) {
                input.written_1h += new;
            } else {
                input.written_5m += new;
            }
            keep(&mut entries, block.key, Entry { ttl, until: now + ttl });
        }
        if entries.len() > MAX_ENTRIES {
            entries.retain(|_, entry| entry.until > now);
            if entries.len() > MAX_ENTRIES {
                entries.clear();
            }
        }
        let total = Input::of_size(bytes).uncached;
        Input { uncached: total.saturating_sub(input.read + input.written()), ..input }
    }

    fn now(&self) -> Duration {
        self.began.elapsed() + Duration::from_millis(self.skipped.load(Ordering::Relaxed))
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Input {
    /// Total number of written tokens.
    pub(crate) const fn written(&self) -> usize {
        self.written_5m + self.written_1h
    }
}

fn tokens(block: &Block) -> usize {
    block.end / BYTES_PER_TOKEN
}

/// Returns the block with the longest live prefix within reach of a marker, and renews the entry.
fn find(blocks: &[Block], entries: &mut HashMap<Key, Entry>, now: Duration) -> Option<usize> {
    let marked = blocks.iter().enumerate().filter(|(_, block)| block.ttl.is_some());
    let in_reach = marked.filter_map(|(at, _)| {
        let from = (at + 1).saturating_sub(LOOKBACK);
        let is_kept = |block: &Block| entries.get(&block.key).is_some_and(|e| e.until > now);
        blocks.get(from..=at)?.iter().rposition(is_kept).map(|found| from + found)
    });
    let found = in_reach.max()?;
    if let Some(entry) = blocks.get(found).and_then(|block| entries.get_mut(&block.key)) {
        entry.until = now + entry.ttl;
    }
    Some(found)
}

/// Stores an entry. If it exists, the longer lifetime applies.
fn keep(entries: &mut HashMap<Key, Entry>, key: Key, entry: Entry) {
    let kept = entries.entry(key).or_insert(entry);
    if kept.until < entry.until {
        *kept = entry;
    }
}
