//! SIGTERM and SIGINT: the first one requests a graceful shutdown, the second an immediate one.
//! SIGHUP: the service reads its files again.

use std::io::{IsTerminal as _, stdin};
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::Reloader;

/// A second signal stopped the program before the graceful shutdown ended.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("stopped before the shutdown was complete")]
pub(super) struct ForcedStop {
    number: u8,
}

impl ForcedStop {
    /// The exit status that a shell reports for a program killed by the signal.
    pub(super) fn exit_code(self) -> ExitCode {
        ExitCode::from(128 + self.number)
    }
}

/// Runs the work until it is done or the second signal arrives. Then the work is dropped.
pub(super) async fn until_second_signal<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut signals = Signals::new()?;
    let second_signal = async {
        signals.next().await;
        signals.next().await
    };
    tokio::select! {
        done = work => done,
        number = second_signal => Err(ForcedStop { number }.into()),
    }
}

/// Returns a token that the first signal cancels.
pub(super) fn shutdown_signal() -> anyhow::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut signals = Signals::new()?;
    let fired = token.clone();
    TaskTracker::new().spawn(async move {
        signals.next().await;
        fired.cancel();
    });
    Ok(token)
}

/// The SIGHUP signals that the process receives. While this exists, they do not end the process.
#[derive(Debug)]
pub(super) struct Hangups {
    signal: Signal,
    has_terminal: bool,
}

impl Hangups {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self { signal: signal(SignalKind::hangup())?, has_terminal: stdin().is_terminal() })
    }

    /// Reloads the settings at each signal. If the terminal of the process was closed, the signal
    /// requests a graceful shutdown, because the keyboard cannot stop the process any more.
    pub(super) fn reload(mut self, reloader: Reloader, shutdown: CancellationToken) {
        TaskTracker::new().spawn(async move {
            while self.signal.recv().await.is_some() {
                if self.has_terminal && !stdin().is_terminal() {
                    return shutdown.cancel();
                }
                reloader.reload().await;
            }
        });
    }
}

/// The SIGTERM and SIGINT signals that the process receives.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its number.
    pub(super) async fn next(&mut self) -> u8 {
        let kind = tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        };
        kind.as_raw_value().try_into().unwrap_or_default()
    }
}
