//! The record of each try of a request.

use std::time::Instant;

use jiff::Timestamp;

use crate::domain::model_try::ModelTry;
use crate::model::{ModelError, ReplyHead};
use crate::worker::time::millis_since;

/// The error of a try that was aborted because its run was stopped.
const STOPPED: &str = "stopped";

/// Records one try while it is executed.
#[derive(Debug)]
pub(in crate::worker) struct TryRecorder {
    started: Instant,
    record: ModelTry,
}

impl TryRecorder {
    pub(in crate::worker) fn begin() -> Self {
        let record = ModelTry {
            started_at: Timestamp::now(),
            head_ms: None,
            duration_ms: 0,
            status: None,
            request_id: None,
            error: Some(STOPPED.to_owned()),
            message: None,
        };
        Self { started: Instant::now(), record }
    }

    /// Records the head of a reply.
    pub(in crate::worker) fn head(&mut self, status: u16, head: &ReplyHead) {
        self.record.head_ms = Some(millis_since(self.started));
        self.record.status = Some(status);
        self.record.request_id.clone_from(&head.request_id);
    }

    /// Records the end of a try that was not aborted.
    pub(in crate::worker) fn ended(&mut self, error: Option<&ModelError>) {
        self.record.error = error.map(|error| error.name().to_owned());
        self.record.message = error.and_then(ModelError::detail);
    }

    /// Returns the record.
    pub(in crate::worker) fn finish(mut self) -> ModelTry {
        self.record.duration_ms = millis_since(self.started);
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorKind;

    /// The values that do not depend on the clock.
    fn values(record: &ModelTry) -> (bool, Option<u16>, Option<&str>, Option<&str>) {
        let ModelTry { head_ms, status, request_id, error, .. } = record;
        (head_ms.is_some(), *status, request_id.as_deref(), error.as_deref())
    }

    #[test]
    fn a_try_is_recorded_as_it_ends() {
        let head = ReplyHead { request_id: Some("req_1".to_owned()), ..ReplyHead::default() };
        let mut good = TryRecorder::begin();
        good.head(200, &head);
        good.ended(None);
        assert_eq!(values(&good.finish()), (true, Some(200), Some("req_1"), None));

        let mut refused = TryRecorder::begin();
        let (kind, message, paths) = (ErrorKind::Overloaded, String::new(), Box::default());
        let error = ModelError::Api { status: Some(529), kind, message, paths, head };
        refused.ended(Some(&error));
        let (status, head) = error.head().unwrap();
        refused.head(status, head);
        let expected = (true, Some(529), Some("req_1"), Some("overloaded_error"));
        assert_eq!(values(&refused.finish()), expected);

        assert_eq!(values(&TryRecorder::begin().finish()), (false, None, None, Some("stopped")));
    }
}
