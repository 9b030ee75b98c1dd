//! SIGTERM and SIGINT: the first asks for an end in order, the second for an end.

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A program that was told twice to stop, and has left things undone.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("stopped before everything had ended")]
pub(super) struct Hurried {
    number: u8,
}

impl Hurried {
    /// What a shell says of a program that the signal has killed.
    pub(super) fn exit_code(self) -> ExitCode {
        ExitCode::from(128 + self.number)
    }
}

/// Does the work, unless two signals come before it is done. It is dropped then, wherever it is.
pub(super) async fn until_told_twice<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut signals = Signals::new()?;
    let told_twice = async {
        signals.next().await;
        signals.next().await
    };
    tokio::select! {
        done = work => done,
        number = told_twice => Err(Hurried { number }.into()),
    }
}

/// Fires at the first signal.
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

/// Signals, one after the other.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The number of the next one.
    pub(super) async fn next(&mut self) -> u8 {
        let kind = tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        };
        kind.as_raw_value().try_into().unwrap_or_default()
    }
}
