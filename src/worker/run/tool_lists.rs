//! What a session is told of tool servers that offer other tools than it has of them.

use crate::agent::Step;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::note::{Note, ToldServers};
use crate::store::step::StepCommit;
use crate::store::told_servers;
use crate::tools::ServerDifference;
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::{Driver, empty};
use crate::worker::run::stop_cause::Halt;

impl Driver<'_> {
    /// Whether a server has told a list since the run last looked. A session without tools of
    /// servers is asked nothing more.
    pub(in crate::worker) fn may_have_other_lists(&self) -> bool {
        !self.run.settings.offered_tools.is_empty()
            && self.lists_told != Some(self.worker.parts.tools.lists_told())
            && !matches!(self.agent.step(), Step::Finish(_))
    }

    /// Tells how the lists of servers differ from what the session has, once a difference.
    pub(in crate::worker) async fn tell_of_lists(&mut self) -> Result<(), Halt> {
        // Before the lists are looked at: one that comes in between is looked at again.
        self.lists_told = Some(self.worker.parts.tools.lists_told());
        let differences = self.worker.parts.tools.differences(&self.run.settings);
        let mut told = self.told_servers().await?;
        let events: Vec<NewEvent> =
            differences.into_iter().filter_map(|now| news(&mut told, now)).collect();
        if events.is_empty() {
            return Ok(());
        }
        let notes = [Note::ToldServers(told)];
        // It is no progress: a worker that dies after this has done nothing yet.
        let step = StepCommit { events: &events, notes: &notes, is_progress: false, ..empty() };
        self.store(&[], &step).await
    }

    async fn told_servers(&mut self) -> Result<ToldServers, Halt> {
        let mut patience = Patience::default();
        loop {
            match in_time(self.find_told_servers()).await {
                Ok(told) => return Ok(told),
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }

    async fn find_told_servers(&self) -> Result<ToldServers, Halt> {
        let mut conn = self.worker.parts.pool.acquire().await?;
        let told = told_servers::find(&mut conn, self.session_id()).await?;
        conn.give_back();
        Ok(told)
    }
}

/// The event that tells of a difference, if it is another than the one that was told.
fn news(told: &mut ToldServers, now: ServerDifference) -> Option<NewEvent> {
    let ServerDifference { server, changes, hash } = now;
    if told.get(&server) == hash.as_ref() {
        return None;
    }
    match hash {
        Some(hash) => told.insert(server.clone(), hash),
        None => told.remove(&server),
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
    fn a_difference_is_told_once_and_so_is_its_end() {
        let mut told = ToldServers::new();
        let mut tell = |hash| news(&mut told, difference(hash)).map(|event| event.body);
        let body = |added: &str| {
            format!(r#"{{"type":"session.tool_server_changed","server":"s","added":[{added}],"#)
                + r#""removed":[],"changed":[]}"#
        };
        assert_eq!(tell(None), None);
        assert_eq!(tell(Some("a")), Some(body(r#""mcp__s__a""#)));
        assert_eq!(tell(Some("a")), None);
        assert_eq!(tell(Some("b")), Some(body(r#""mcp__s__b""#)));
        assert_eq!(tell(None), Some(body("")));
        assert_eq!(tell(None), None);
    }
}
