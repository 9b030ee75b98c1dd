//! The early start of a run: the worker prepares it, and asks the model, while its message is being
//! accepted.
//!
//! Only a plain message goes early: its session is known to this process and was idle when this process
//! last saw it, the worker of this process has a free slot, nothing has a budget, and no other process
//! of the service is known, which could have changed the session. The statement that accepts the
//! message decides. If it does not start the run, the worker aborts the request. Such a request costs
//! what the provider bills for a request that is aborted within milliseconds; nothing of it is stored,
//! shown or counted. It happens if the client posts to a session that is busy, archived or deleted, or
//! if the database fails.

use std::time::Duration;

use super::message_post::MessagePost;
use crate::bus::Reservation;
use crate::domain::claim::{Claimed, Fence, Permissions};
use crate::domain::file::may_refer;
use crate::service::known_sessions::KnownSession;
use crate::store::accept::NewRun;

impl MessagePost<'_> {
    /// Hands the run over before its message is accepted, if it may go early. Must be called for each
    /// message, because the session is not unused from now on.
    pub(super) fn start_early(&self, new: &NewRun<'_>, reservation: Option<&mut Reservation>) {
        let session = self.service.known_sessions.next_run(new);
        let is_plain = !self.needs_check
            && !may_refer(new.input)
            && new.versions.is_none()
            && new.options.permission_mode.is_none()
            && new.options.model_settings.is_none()
            && !self.service.bus.has_peers();
        if let (true, Some(session), Some(reservation)) = (is_plain, session, reservation) {
            let run = expected_claim(new, reservation, session);
            reservation.start_early(run);
        }
    }
}

/// The claim of the run, if its message is accepted and the session is as it was. The worker takes
/// permissions, budget and the number of messages from the actual claim.
fn expected_claim(new: &NewRun<'_>, reservation: &Reservation, session: KnownSession) -> Claimed {
    let KnownSession { settings, model_settings, workspace, is_fork, is_unused, .. } = session;
    Claimed {
        fence: Fence { run_id: new.id, attempt: 1, worker: reservation.worker() },
        tenant: new.tenant,
        session_id: new.session_id,
        settings,
        model_settings,
        workspace,
        parent_session: None,
        is_fork,
        message_id: new.message_id.to_owned(),
        input: new.input.to_owned(),
        options: new.options.clone(),
        last_message_seq: i32::from(is_unused),
        steps: 0,
        takeovers: 0,
        elapsed: Duration::ZERO,
        is_cancelled: false,
        permissions: Permissions::default(),
        is_budgeted: false,
        begun: Some(new.request_event),
    }
}
