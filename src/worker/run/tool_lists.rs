//! Reports to a session that tool servers offer other tools than the session has pinned.

use super::state::RunState;
use super::stop_cause::StopCause;
use crate::agent::Step;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::state_change::{AnnouncedToolLists, StateChange};
use crate::store::announced_tool_lists;
use crate::store::step::StepCommit;
use crate::tools::ServerDifference;

/// Watches the tool lists of servers during a run.
#[derive(Debug, Default)]
pub(super) struct ToolListWatch {
    /// The number of received lists at the last comparison.
    compared_at: Option<u64>,
}

impl ToolListWatch {
    /// True if a server has sent a list since the last comparison. A session without tools of
    /// servers has nothing to compare.
    pub(super) fn is_due(&self, state: &RunState<'_>) -> bool {
        let (services, settings) = (state.run.services, state.run.settings());
        !settings.offered_tools.is_empty()
            && self.compared_at != Some(services.tools.list_updates())
            && !matches!(state.progress.agent.step(), Step::Finish(_))
    }

    /// Reports how the lists of servers differ from the tools of the session, each difference once.
    pub(super) async fn report(&mut self, state: &mut RunState<'_>) -> Result<(), StopCause> {
        state.writer.finish().await?;
        let (run, tools) = (state.run, &state.run.services.tools);
        // Read before the comparison: a list that arrives during it is compared next time.
        self.compared_at = Some(tools.list_updates());
        let differences = tools.differences(run.settings());
        let session_id = run.session_id();
        let pool = &run.services.pool;
        let find =
            |_| pool.with(async |conn| Ok(announced_tool_lists::find(conn, session_id).await?));
        let mut reported = run.retry(find).await?;
        let events: Vec<NewEvent> =
            differences.into_iter().filter_map(|now| change_event(&mut reported, now)).collect();
        if events.is_empty() {
            return Ok(());
        }
        let state_changes = [StateChange::AnnouncedToolLists(reported)];
        // A worker that stops after this step has made no progress.
        let is_progress = false;
        let step = StepCommit {
            events: &events,
            state_changes: &state_changes,
            is_progress,
            ..Default::default()
        };
        state.writer.store(&[], &step).await
    }
}

/// The event that reports a difference, if the session has not seen the same difference before.
fn change_event(reported: &mut AnnouncedToolLists, now: ServerDifference) -> Option<NewEvent> {
    let ServerDifference { server, changes, hash } = now;
    if reported.get(&server) == hash.as_ref() {
        return None;
    }
    match hash {
        Some(hash) => reported.insert(server.clone(), hash),
        None => reported.remove(&server),
    };
    let (added, removed, changed) = (changes.added, changes.removed, changes.altered);
    Some(NewEvent::new(&EventBody::ToolServerChanged { server, added, removed, changed }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ListChanges;

    fn difference(hash: Option<&str>) -> ServerDifference {
        let added = hash.iter().map(|hash| format!("mcp__s__{hash}")).collect();
        let changes = ListChanges { added, ..ListChanges::default() };
        ServerDifference { server: "s".into(), changes, hash: hash.map(str::to_owned) }
    }

    #[test]
    fn a_difference_is_reported_once_and_so_is_its_end() {
        let mut reported = AnnouncedToolLists::new();
        let mut report =
            |hash| change_event(&mut reported, difference(hash)).map(|event| event.body);
        let body = |added: &str| {
            format!(r#"{{"type":"session.tool_server_changed","server":"s","added":[{added}],"#)
                + r#""removed":[],"changed":[]}"#
        };
        assert_eq!(report(None), None);
        assert_eq!(report(Some("a")), Some(body(r#""mcp__s__a""#)));
        assert_eq!(report(Some("a")), None);
        assert_eq!(report(Some("b")), Some(body(r#""mcp__s__b""#)));
        assert_eq!(report(None), Some(body("")));
        assert_eq!(report(None), None);
    }
}
