//! Retries: the message of a run that failed or was cancelled starts another run.

use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::input::NewMessage;
use super::message_post::{MessagePost, PostMessage, PostedRun};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::media::placeholder;
use crate::domain::message::{BadContent, Content};
use crate::domain::run_options::OnBusy;
use crate::domain::run_status::RunStatus;
use crate::domain::trace::Trace;
use crate::service::error::Error;
use crate::service::lookup::newest_event;
use crate::service::session_settings::ModelChange;
use crate::service::state::Service;
use crate::service::versions::check_version;
use crate::store::retries::{RetriedRun, find_retried};

/// The message of a retry whose original has no text.
const ONLY_MEDIA: &str = "Please answer my last message.";
/// The number of reads of a session that changes meanwhile.
const READS: usize = 3;

/// A request to retry a run.
#[derive(Debug)]
pub(crate) struct RetryRun {
    /// The tenant.
    pub(crate) tenant: TenantId,
    /// The session.
    pub(crate) session_id: SessionId,
    /// The run that failed or was cancelled.
    pub(crate) run_id: RunId,
    /// The client's key, by which a repeated request is recognized.
    pub(crate) idempotency_key: Option<String>,
    /// The versions of the session that the client expects; none for any version.
    pub(crate) versions: Option<Vec<i64>>,
    /// The trace of the request.
    pub(crate) trace: Trace,
}

/// Posts the message of a run again, if the run is the newest one of its session and has failed or was
/// cancelled.
pub(crate) async fn retry_run(service: &Service, request: &RetryRun) -> Result<PostedRun, Error> {
    let mut reads = 0;
    loop {
        let RetryRun { tenant, session_id, run_id, .. } = *request;
        let find =
            async |conn: &mut PgConnection| find_retried(conn, tenant, session_id, run_id).await;
        let Some(retried) = service.pool.with(tenant, find).await? else {
            newest_event(service, tenant, session_id).await?;
            return Err(Error::RunNotFound(run_id.to_string()));
        };
        let last_seq = retried.last_seq;
        let refusal = refusal(run_id, &retried);
        let post = PostMessage {
            tenant,
            session_id,
            message: message(run_id, retried)?,
            idempotency_key: request.idempotency_key.clone(),
            // The newest run is still the newest one when the message is accepted.
            versions: Some(vec![last_seq]),
            trace: request.trace,
            other_events: Vec::new(),
        };
        let post = MessagePost::new(service, &post)?;
        if post.is_repeatable()
            && let Some(posted) = post.repeated(&post.fingerprint()?).await?
        {
            return Ok(posted);
        }
        refusal?;
        check_version(request.versions.as_deref(), last_seq)?;
        reads += 1;
        match post.post().await {
            // The session has changed since it was read.
            Err(Error::VersionMismatch) if reads < READS => {}
            posted => return posted,
        }
    }
}

/// Refuses the retry of a run that is not the newest one, or that has not failed.
fn refusal(run_id: RunId, run: &RetriedRun) -> Result<(), Error> {
    let active_run_id = run.newest;
    let reason = match (run.newest_status, run.status) {
        (RunStatus::Queued | RunStatus::Running, _) => {
            return Err(Error::SessionBusy { active_run_id });
        }
        (RunStatus::RequiresAction, _) => return Err(Error::ActionRequired { active_run_id }),
        _ if run.newest != run_id => "a newer run has followed it",
        (_, RunStatus::Failed | RunStatus::Cancelled) => return Ok(()),
        (_, _) => "it has completed",
    };
    Err(Error::RunNotRetryable { run_id, reason })
}

/// The message of the retry, with the options of the original.
fn message(run_id: RunId, run: RetriedRun) -> Result<NewMessage, Error> {
    let options = run.options;
    Ok(NewMessage {
        content: content(run.input, run.has_begun).map_err(Error::internal)?,
        id: None,
        limits: options.limits,
        tool_choice: options.tool_choice,
        on_busy: Some(OnBusy::Reject),
        tools: Vec::new(),
        defined_tools: options.tools,
        // The original has set the mode, which may have changed since.
        permission_mode: None,
        retry_of: Some(run_id),
        generation: options.generation,
        stop_sequences: options.stop_sequences,
        model_change: ModelChange::default(),
        model_settings: options.model_settings,
    })
}

/// The content of the retry. If the original is in the history, the model receives both: images,
/// documents and search results are not repeated, because their number and size are limited.
fn content(input: String, is_in_history: bool) -> Result<Content, BadContent> {
    let input = Content::parse(input)?;
    if !is_in_history {
        return Ok(input);
    }
    let mut texts: Vec<&RawValue> = Vec::new();
    for block in input.blocks()? {
        if placeholder(block.raw)?.is_none() {
            texts.push(block.raw);
        }
    }
    if texts.is_empty() { Content::text(ONLY_MEDIA) } else { Content::from_blocks(texts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"type":"text",  "text":"What is this?"}"#;
    const IMAGE: &str = r#"{"type":"image","source":{"type":"url","url":"https://a"}}"#;

    #[test]
    fn a_message_in_the_history_is_repeated_without_its_media() {
        let both = format!("[{IMAGE},{TEXT}]");
        let repeated = |text: &str, is_in_history| {
            content(text.to_owned(), is_in_history).unwrap().as_str().to_owned()
        };
        assert_eq!(repeated(&both, false), both);
        assert_eq!(repeated(&both, true), format!("[{TEXT}]"));
        let only_media = repeated(&format!("[{IMAGE}]"), true);
        assert_eq!(only_media, Content::text(ONLY_MEDIA).unwrap().as_str());
    }
}
