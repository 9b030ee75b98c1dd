//! Ctrl-C: once to stop the run, twice to quit.

use tokio_util::sync::CancellationToken;

use crate::cli::output;
use crate::cli::signals::Signals;
use crate::cli::status::INTERRUPTED;

/// A request to exit with this status.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quit(pub(super) u8);

/// The signals of the process.
pub(super) struct Interrupts(Signals);

impl Interrupts {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(Signals::new()?))
    }

    /// Waits for the next Ctrl-C. Any other signal is a request to exit.
    pub(super) async fn next(&mut self) -> Result<(), Quit> {
        let status = 128 + self.0.next().await;
        if status == INTERRUPTED { Ok(()) } else { Err(Quit(status)) }
    }

    /// Cancels `stop` at the first Ctrl-C and returns at the second.
    pub(super) async fn until_second(&mut self, stop: &CancellationToken) -> Quit {
        loop {
            if let Err(quit) = self.next().await {
                return quit;
            }
            if stop.is_cancelled() {
                return Quit(INTERRUPTED);
            }
            stop.cancel();
            output::print_error("\nStopping the run; Ctrl-C again to quit.");
        }
    }
}
