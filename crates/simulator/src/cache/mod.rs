//! The cache of prompts: what a request reads of what earlier ones wrote, and what it writes.
//!
//! An entry is written at each mark, and found by the hash of the whole prefix. A read looks back
//! from each mark at a limited number of blocks. What a prefix depends on besides its blocks
//! depends on its level, so that a change of the tool choice, say, loses the messages only.

mod layout;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::models::Model;
use super::render::BYTES_PER_TOKEN;
use super::request::Ask;
use layout::{Block, Key, layout};

/// Blocks that a read looks at from a mark, the marked one among them.
const LOOKBACK: usize = 20;
/// Entries kept at most; beyond that those that have run out are dropped, or else all.
const MOST: usize = 100_000;

/// The input of one request, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Input {
    /// Neither read nor written.
    pub(crate) uncached: usize,
    /// Read from the cache.
    pub(crate) read: usize,
    /// Written for five minutes.
    pub(crate) written_5m: usize,
    /// Written for an hour.
    pub(crate) written_1h: usize,
}

impl Input {
    /// A body of so many bytes, without a cache.
    pub(crate) fn of_size(bytes: usize) -> Self {
        Self { uncached: bytes / BYTES_PER_TOKEN + 1, ..Self::default() }
    }
}

/// What is kept, and how late it is.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: Mutex<HashMap<Key, Entry>>,
    began: Instant,
    /// Milliseconds that are taken to have passed besides those that have.
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
    /// Lets time pass.
    pub(crate) fn skip(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.skipped.fetch_add(millis, Ordering::Relaxed);
    }

    /// What a request of so many bytes reads and writes. It reads before it writes.
    pub(crate) fn take(&self, ask: Ask<'_>, bytes: usize) -> Input {
        let blocks = layout(ask);
        let least = Model::find(ask.model()).map_or(0, Model::least_cached);
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
        if entries.len() > MOST {
            entries.retain(|_, entry| entry.until > now);
            if entries.len() > MOST {
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
    /// Written at all.
    pub(crate) const fn written(&self) -> usize {
        self.written_5m + self.written_1h
    }
}

fn tokens(block: &Block) -> usize {
    block.end / BYTES_PER_TOKEN
}

/// The longest prefix that is kept and in reach of a mark. Its life begins anew.
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

/// Keeps an entry, for as long as the longest mark at its place asked for.
fn keep(entries: &mut HashMap<Key, Entry>, key: Key, entry: Entry) {
    let kept = entries.entry(key).or_insert(entry);
    if kept.until < entry.until {
        *kept = entry;
    }
}
