//! Positions in the feed of changes of the session list.

use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::str::FromStr;

/// A position in the feed: the transactions that a snapshot of the database sees. A reader continues
/// with the changes of all other transactions, so a change whose transaction commits late is not lost.
///
/// Its text is the time of the snapshot, in seconds, and the snapshot: `1764109000-750:752:750`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPosition {
    taken_at: i64,
    xmin: u64,
    xmax: u64,
    /// The transactions before `xmax` that the snapshot does not see.
    running: Vec<u64>,
}

/// A text that is not a position.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a position of the stream")]
pub struct BadPosition(String);

impl FeedPosition {
    /// The snapshot, as Postgres writes it.
    pub fn snapshot(&self) -> String {
        let running: Vec<String> = self.running.iter().map(u64::to_string).collect();
        format!("{}:{}:{}", self.xmin, self.xmax, running.join(","))
    }

    /// The time of the snapshot in seconds since 1970, by the clock of the database.
    pub const fn taken_at(&self) -> i64 {
        self.taken_at
    }

    /// True if the database has not reached the snapshot, because it was restored from a backup.
    pub const fn is_ahead_of(&self, now: &Self) -> bool {
        self.xmax > now.xmax
    }

    /// A key by which later snapshots are greater.
    fn key(&self) -> (u64, u64, Reverse<usize>) {
        (self.xmax, self.xmin, Reverse(self.running.len()))
    }

    /// The order in which snapshots were taken.
    pub fn order(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Display for FeedPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.taken_at, self.snapshot())
    }
}

impl FromStr for FeedPosition {
    type Err = BadPosition;

    fn from_str(text: &str) -> Result<Self, BadPosition> {
        parse(text).ok_or_else(|| BadPosition(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<FeedPosition> {
    let (taken_at, snapshot) = text.split_once('-')?;
    let taken_at = i64::try_from(number(taken_at)?).ok()?;
    let mut parts = snapshot.split(':');
    let (xmin, xmax, list) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
    let is_whole = parts.next().is_none();
    let running: Vec<u64> = if list.is_empty() {
        Vec::new()
    } else {
        list.split(',').map(number).collect::<Option<_>>()?
    };
    let is_ordered = running.is_sorted_by(|one, next| one < next)
        && running.iter().all(|id| (xmin..xmax).contains(id));
    let is_position = is_whole && xmin > 0 && xmin <= xmax && is_ordered;
    is_position.then_some(FeedPosition { taken_at, xmin, xmax, running })
}

/// A decimal number of at most 18 digits.
fn number(text: &str) -> Option<u64> {
    let is_number = (1..=18).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(text: &str) -> FeedPosition {
        text.parse().unwrap()
    }

    #[test]
    fn a_position_is_read_as_it_is_written() {
        for text in ["17-750:750:", "17-750:753:750,752"] {
            assert_eq!(position(text).to_string(), text);
        }
        assert_eq!(position("17-750:753:750,752").snapshot(), "750:753:750,752");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "7",
            "17-",
            "17-1",
            "17-1:2",
            "17-1:2:3",
            "17-2:1:",
            "17-1:4:3,2",
            "17-1:4:2,2",
            "17-0:1:",
            "-1:2:",
            "17-1:2::",
            "17-1:2:1,",
            "17-+1:2:",
            "17-1:9999999999999999999:",
            "17-2:4:1",
            "x-1:2:",
            "17-1:2:' OR true",
        ] {
            assert!(text.parse::<FeedPosition>().is_err(), "{text}");
        }
    }

    #[test]
    fn later_snapshots_are_greater() {
        // 751 starts, 750 ends, 751 ends.
        let taken = ["17-750:751:750", "17-750:752:750,751", "17-751:752:751", "17-752:752:"];
        for (early, late) in taken.iter().zip(&taken[1..]) {
            assert_eq!(position(early).order(&position(late)), Ordering::Less, "{early} {late}");
        }
        let [before, after] = ["17-750:753:750,751", "17-750:753:750"].map(position);
        assert_eq!(before.order(&after), Ordering::Less);
        assert!(position("17-9:9:").is_ahead_of(&position("18-8:8:")));
    }
}
