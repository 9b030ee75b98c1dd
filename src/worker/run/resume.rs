//! Resuming a run from what an earlier attempt has stored.

use sqlx::PgConnection;

use super::context::RunContext;
use super::state::RunState;
use super::stop_cause::StopCause;
use crate::agent::{AgentLoop, Bounds};
use crate::domain::message::Message;
use crate::domain::usage::{Spending, Usage};
use crate::store::messages::list_of_run;
use crate::store::retry::{Retry, in_time};
use crate::store::sub_agents::usage_of_ended;
use crate::store::usage::{not_in_messages, of_run};
use crate::worker::transcript::Transcript;

/// The stored state of a run.
#[derive(Debug, Default)]
struct Stored {
    messages: Vec<Message>,
    /// All that the run has used.
    spent: Spending,
    /// The usage of sampling requests and of requests without a reply, which no message contains.
    not_in_messages: Usage,
    /// The usage of finished sub-agents, which no message contains either.
    by_sub_agents: Spending,
}

/// As [`resume`], when there is memory for the history.
pub(super) async fn read_history(
    state: &mut RunState<'_>,
    may_be_begun: bool,
) -> Result<(), StopCause> {
    let permit = state.wait_for_memory().await?;
    resume(state, may_be_begun).await?;
    state.count_history();
    drop(permit);
    Ok(())
}

/// Brings the transcript and the loop to the stored messages, whatever the state was before. Reads
/// the messages of the run only if it may have begun.
pub(super) async fn resume(state: &mut RunState<'_>, may_be_begun: bool) -> Result<(), StopCause> {
    let run = state.run;
    let mut retry = Retry::default();
    let stored = loop {
        let load = load(run, &mut state.writer.transcript, may_be_begun);
        match in_time(load).await {
            Ok(stored) => break stored,
            Err(error) => run.pause(&mut retry, error).await?,
        }
    };
    if may_be_begun {
        state.progress.spent = stored.spent;
    }
    if stored.messages.is_empty() {
        return Ok(());
    }
    state.writer.set_begun();
    let bounds = Bounds::new(&run.limits, run.settings().price);
    let mut agent = AgentLoop::resume(&stored.messages, bounds)?;
    agent.add_sampling_usage(stored.not_in_messages);
    agent.add_sub_agent_usage(&stored.by_sub_agents);
    state.progress.agent = agent;
    state.progress.is_resumed = true;
    Ok(())
}

async fn load(
    run: &RunContext<'_>,
    transcript: &mut Transcript,
    may_be_begun: bool,
) -> Result<Stored, StopCause> {
    let (session_id, run_id) = (run.session_id(), run.run_id());
    let work = async |conn: &mut PgConnection| {
        transcript.catch_up(conn, session_id).await?;
        if !may_be_begun {
            return Ok(Stored::default());
        }
        let messages = list_of_run(conn, run_id).await?;
        Ok::<_, StopCause>(Stored {
            messages: messages.into_iter().map(|stored| stored.message).collect(),
            spent: of_run(conn, run_id).await?,
            not_in_messages: not_in_messages(conn, session_id, run_id).await?,
            by_sub_agents: usage_of_ended(conn, run_id).await?,
        })
    };
    run.services.pool.with(work).await
}
