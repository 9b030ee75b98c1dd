//! The rate at which runs leave the queue, over all processes.

use std::time::Duration;

use jiff::Timestamp;

/// The time constant of the average.
const AVERAGED_OVER: f64 = 10.0;
/// The longest time between two counts of which the rate can be computed: runs that are queued and start
/// in between are not noticed.
const LONGEST_GAP: f64 = 5.0;
/// The wait that clients are asked for before a rate is known.
const UNKNOWN: Duration = Duration::from_secs(5);
const LONGEST: f64 = 60.0;
/// The part of the queue that should be free before clients come back: many of them are refused at the
/// same time.
const ROOM: f64 = 0.05;

/// The rate at which runs leave the queue, over all processes: they start, or are cancelled. As long as
/// the queue is not empty, it is also the rate at which runs complete.
#[derive(Debug, Default)]
pub(super) struct DrainRate {
    /// The time and the length of the last count.
    last: Option<(Timestamp, i64)>,
    /// Runs that left the queue, and the time that it took them in seconds; both with less weight the
    /// longer ago they are.
    left: f64,
    seconds: f64,
}

impl DrainRate {
    /// The time of the last count.
    pub(super) fn counted_at(&self) -> Timestamp {
        self.last.map_or(Timestamp::UNIX_EPOCH, |(at, _)| at)
    }

    /// Adds a count of the queue. `earlier` of the queued runs were queued at the last count already, so
    /// all others of that time have left the queue.
    pub(super) fn count(&mut self, at: Timestamp, length: i64, earlier: i64) {
        let Some((last_at, last_length)) = self.last.replace((at, length)) else { return };
        let seconds = at.duration_since(last_at).as_secs_f64();
        if seconds > LONGEST_GAP {
            (self.left, self.seconds) = (0.0, 0.0);
            return;
        }
        let weight = (-seconds.max(0.0) / AVERAGED_OVER).exp();
        #[expect(clippy::cast_precision_loss, reason = "far fewer runs are queued")]
        let left = (last_length - earlier).max(0) as f64;
        self.left = self.left * weight + left;
        self.seconds = self.seconds * weight + seconds.max(0.0);
    }

    /// The time until so many runs more than the limit have left the queue, and some more, if the
    /// queue is drained for this number of tenants in turn.
    pub(super) fn time_for_room(&self, excess: i64, limit: i64, tenants: usize) -> Duration {
        // Before a second has been seen, a single run would make a great difference.
        if self.seconds < 1.0 {
            return UNKNOWN;
        }
        #[expect(clippy::cast_precision_loss, reason = "far fewer runs are queued")]
        let (excess, limit, tenants) = (excess.max(0) as f64, limit as f64, tenants as f64);
        let seconds = (excess + limit * ROOM).max(1.0) * tenants * self.seconds / self.left;
        // Without a run that left the queue this is infinite.
        Duration::from_secs_f64(seconds.clamp(1.0, LONGEST).ceil())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    /// A queue of 1,000 runs from which runs leave at a rate per second, counted every 200 ms.
    fn drained_at(rate: i64, seconds: i64) -> DrainRate {
        let mut drain = DrainRate::default();
        for tick in 0..=seconds * 5 {
            drain.count(at(tick * 200), 1000, 1000 - rate / 5);
        }
        drain
    }

    #[test]
    fn the_wait_is_the_time_in_which_a_part_of_the_queue_leaves_at_the_recent_rate() {
        let wait = |drain: DrainRate| drain.time_for_room(0, 1000, 1).as_secs();
        assert_eq!(wait(drained_at(10, 30)), 5);
        assert_eq!(wait(drained_at(100, 30)), 1);
        assert_eq!(
            drained_at(10, 30).time_for_room(0, 1000, 3).as_secs(),
            15,
            "one of three tenants"
        );
        assert_eq!(drained_at(10, 30).time_for_room(100, 1000, 1).as_secs(), 15, "an excess");
    }

    #[test]
    fn a_queue_from_which_nothing_leaves_asks_for_the_longest_wait() {
        assert_eq!(drained_at(0, 30).time_for_room(0, 1000, 1).as_secs(), 60);
    }

    #[test]
    fn the_wait_follows_a_change_of_the_rate() {
        let mut drain = drained_at(10, 30);
        for tick in 0..=30 * 5 {
            drain.count(at(30_000 + tick * 200), 1000, 980);
        }
        assert_eq!(drain.time_for_room(0, 1000, 1).as_secs(), 1);
    }

    #[test]
    fn an_unknown_rate_has_a_default() {
        assert_eq!(DrainRate::default().time_for_room(0, 1000, 1), UNKNOWN);
        let mut drain = drained_at(10, 30);
        drain.count(at(60_000), 1000, 0);
        assert_eq!(
            drain.time_for_room(0, 1000, 1),
            UNKNOWN,
            "the gap between the counts is too long"
        );
    }
}
