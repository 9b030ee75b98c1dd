//! The message: the argument or standard input.

use std::io::{Read as _, stdin};
use std::thread;

use anyhow::Context as _;
use tokio::sync::oneshot;

use crate::cli::output;
use crate::cli::status::UsageError;
use crate::cli::terminal::Terminals;

/// Reads the prompt. An empty prompt is an error.
pub(super) async fn prompt(argument: Option<&str>) -> anyhow::Result<String> {
    let prompt = match argument {
        Some(text) if text != "-" => text.to_owned(),
        Some(_) | None => from_stdin().await?,
    };
    if prompt.trim().is_empty() {
        return Err(UsageError("the prompt is empty".to_owned()).into());
    }
    Ok(prompt)
}

async fn from_stdin() -> anyhow::Result<String> {
    if Terminals::detect().input {
        output::print_error("Enter the message and end it with Ctrl-D:");
    }
    let (sender, receiver) = oneshot::channel();
    // Not a thread of the runtime: its shutdown would wait for the blocking read.
    thread::spawn(move || {
        let mut text = String::new();
        let read = stdin().read_to_string(&mut text).map(|_| text);
        let _ = sender.send(read);
    });
    let text = receiver.await.context("the reader of stdin has stopped")?;
    let text = text.context("stdin is not valid UTF-8 text")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
