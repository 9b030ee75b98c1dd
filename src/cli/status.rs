//! What commands tell by their exit status.

use std::process::ExitCode;

use super::client::Failure;
use super::signals::ForcedStop;

/// A run waits for somebody who decides.
pub(super) const NEEDS_APPROVAL: u8 = 3;
/// The service cannot be reached.
pub(super) const UNREACHABLE: u8 = 4;
/// Somebody pressed Ctrl-C.
pub(super) const INTERRUPTED: u8 = 130;

/// Options that are each good, and make no sense together or in this place.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Misused(pub(super) String);

/// The status of a command that failed.
pub(super) fn of(error: &anyhow::Error) -> ExitCode {
    if let Some(stop) = error.downcast_ref::<ForcedStop>() {
        return stop.exit_code();
    }
    if error.is::<Misused>() {
        return ExitCode::from(2);
    }
    match error.downcast_ref() {
        Some(Failure::Away { .. }) => ExitCode::from(UNREACHABLE),
        Some(Failure::Refused(_) | Failure::Stranger { .. }) | None => ExitCode::FAILURE,
    }
}
