//! Exit status codes.

use std::process::ExitCode;

use super::client::Failure;
use super::signals::ForcedStop;

/// A run waits for an approval or a client result.
pub(super) const NEEDS_APPROVAL: u8 = 3;
/// The service cannot be reached.
pub(super) const UNREACHABLE: u8 = 4;
/// The user pressed Ctrl-C.
pub(super) const INTERRUPTED: u8 = 130;

/// Options or arguments that are invalid in combination or in this context.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(pub(super) String);

/// The status of a command that failed.
pub(super) fn of(error: &anyhow::Error) -> ExitCode {
    if let Some(stop) = error.downcast_ref::<ForcedStop>() {
        return stop.exit_code();
    }
    if error.is::<UsageError>() {
        return ExitCode::from(2);
    }
    match error.downcast_ref() {
        Some(Failure::Unavailable { .. }) => ExitCode::from(UNREACHABLE),
        Some(Failure::Refused(_) | Failure::Unexpected { .. }) | None => ExitCode::FAILURE,
    }
}
