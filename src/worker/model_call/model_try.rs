//! What is noted of each try of a request.

use std::time::Instant;

use jiff::Timestamp;

use crate::domain::attempt::Attempt;
use crate::model::{ModelError, ReplyHead};
use crate::worker::run::driver::millis;

/// A try of a request that was dropped because its run was told to stop.
const STOPPED: &str = "stopped";

/// A try under way.
#[derive(Debug)]
pub(in crate::worker) struct Try {
    since: Instant,
    noted: Attempt,
}

impl Try {
    pub(in crate::worker) fn begin() -> Self {
        let noted = Attempt {
            started_at: Timestamp::now(),
            head_ms: None,
            duration_ms: 0,
            status: None,
            request_id: None,
            error: Some(STOPPED.to_owned()),
        };
        Self { since: Instant::now(), noted }
    }

    /// The head of a reply has come.
    pub(in crate::worker) fn head(&mut self, status: u16, head: &ReplyHead) {
        self.noted.head_ms = Some(millis(self.since));
        self.noted.status = Some(status);
        self.noted.request_id.clone_from(&head.request_id);
    }

    /// The try has ended by itself.
    pub(in crate::worker) fn ended(&mut self, error: Option<&ModelError>) {
        self.noted.error = error.map(|error| error.word().to_owned());
    }

    /// All that there is to note, now that it is over.
    pub(in crate::worker) fn over(mut self) -> Attempt {
        self.noted.duration_ms = millis(self.since);
        self.noted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorKind;

    /// What does not depend on the clock.
    fn told(noted: &Attempt) -> (bool, Option<u16>, Option<&str>, Option<&str>) {
        let Attempt { head_ms, status, request_id, error, .. } = noted;
        (head_ms.is_some(), *status, request_id.as_deref(), error.as_deref())
    }

    #[test]
    fn a_try_is_noted_as_it_ends() {
        let head = ReplyHead { request_id: Some("req_1".to_owned()), ..ReplyHead::default() };
        let mut good = Try::begin();
        good.head(200, &head);
        good.ended(None);
        assert_eq!(told(&good.over()), (true, Some(200), Some("req_1"), None));

        let mut refused = Try::begin();
        let (kind, message, paths) = (ErrorKind::Overloaded, String::new(), Box::default());
        let error = ModelError::Api { status: Some(529), kind, message, paths, head };
        refused.ended(Some(&error));
        let (status, head) = error.head().unwrap();
        refused.head(status, head);
        let expected = (true, Some(529), Some("req_1"), Some("overloaded_error"));
        assert_eq!(told(&refused.over()), expected);

        assert_eq!(told(&Try::begin().over()), (false, None, None, Some("stopped")));
    }
}
