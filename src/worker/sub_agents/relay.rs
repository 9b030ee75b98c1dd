//! A sub-agent as its parent sees it: its run, and how far of its events the parent has told.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::select_all;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use crate::bus::{Bus, Signal, Subscription};
use crate::domain::event::{EventBody, Frame, NewEvent};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::sub_agent::Child;
use crate::domain::tool::ToolCall;
use crate::store::events::{Range, read_some};
use crate::store::sub_agents::{ChildRun, find, last_told, session_of};
use crate::worker::run::stop_cause::Halt;

/// Events of a sub-agent that are told in one step, and about how many bytes of them.
const TOLD: i64 = 100;
const BYTES: i64 = 256 * 1024;

/// The types that a parent tells of: what its sub-agent says and does, and where it stands.
const PROGRESS: [&str; 10] = [
    "agent.message",
    "agent.tool_use",
    "agent.tool_result",
    "agent.context_compacted",
    "session.todos",
    "session.status_running",
    "session.status_rescheduled",
    "session.status_idle",
    "session.error",
    "session.usage",
];

/// A sub-agent at work.
pub(in crate::worker) struct Thread {
    /// The place of its call in the round.
    pub(in crate::worker) position: usize,
    child: Child,
    /// The number of the last event that the parent has told of, or passed over.
    told: i64,
    bus: Arc<Bus>,
    subscription: Subscription,
}

/// What is new of a sub-agent.
pub(in crate::worker) struct Looked {
    /// What its parent tells of it.
    pub(in crate::worker) events: Vec<NewEvent>,
    /// The number of the last event that was looked at.
    pub(in crate::worker) up_to: i64,
    /// Whether there are more behind it.
    pub(in crate::worker) has_more: bool,
    /// What it has come to, if it has ended and all of its events are here; nothing is known of one
    /// whose session was deleted.
    #[expect(clippy::option_option, reason = "no end is not an end of which nothing is known")]
    pub(in crate::worker) end: Option<Option<ChildRun>>,
}

impl Thread {
    pub(in crate::worker) fn new(bus: &Arc<Bus>, position: usize, child: Child, told: i64) -> Self {
        let subscription = bus.subscribe(child.session_id);
        Self { position, child, told, bus: Arc::clone(bus), subscription }
    }

    /// Finds a sub-agent that an earlier attempt of its parent started.
    pub(in crate::worker) async fn find(
        conn: &mut PgConnection,
        bus: &Arc<Bus>,
        parent: (SessionId, RunId),
        (position, call, run_id): (usize, &ToolCall, RunId),
    ) -> Result<Option<Self>, Halt> {
        let Some(session_id) = session_of(conn, run_id).await? else { return Ok(None) };
        let told = last_told(conn, parent, session_id).await?;
        let child = Child { tool_use_id: call.tool_use_id.clone(), session_id, run_id };
        Ok(Some(Self::new(bus, position, child, told)))
    }

    pub(in crate::worker) fn run_id(&self) -> RunId {
        self.child.run_id
    }

    pub(in crate::worker) fn has_told(&mut self, up_to: i64) {
        self.told = up_to;
    }

    /// Looks at all of them.
    pub(in crate::worker) async fn look_at_all(
        threads: &[Self],
        conn: &mut PgConnection,
    ) -> Result<Vec<Looked>, Halt> {
        let mut looked = Vec::with_capacity(threads.len());
        for thread in threads {
            looked.push(thread.look(conn).await?);
        }
        Ok(looked)
    }

    async fn look(&self, conn: &mut PgConnection) -> Result<Looked, Halt> {
        // First where it stands: a run that has settled has all of its events.
        let Some(run) = find(conn, self.child.run_id).await? else {
            let (events, up_to) = (Vec::new(), self.told);
            return Ok(Looked { events, up_to, has_more: false, end: Some(None) });
        };
        let range = Range {
            session_id: self.child.session_id,
            run_id: Some(self.child.run_id),
            after: self.told,
            limit: TOLD,
        };
        let piece = read_some(conn, range, BYTES).await?;
        let up_to = piece.frames.last().map_or(self.told, |frame| frame.seq);
        let told = piece.frames.iter().filter(|frame| PROGRESS.contains(&frame.kind.as_str()));
        let events = told.map(|frame| self.event(frame)).collect::<Result<_, _>>()?;
        let has_ended = run.status.is_terminal() && piece.is_last;
        let (has_more, end) = (!piece.is_last, has_ended.then_some(Some(run)));
        Ok(Looked { events, up_to, has_more, end })
    }

    fn event(&self, frame: &Frame) -> Result<NewEvent, Halt> {
        let json = String::from_utf8(frame.json().into());
        let json = json.map_err(|error| Halt::Defect(error.to_string()))?;
        Ok(NewEvent::new(&EventBody::ThreadEvent {
            session_thread_id: self.child.session_id,
            tool_use_id: self.child.tool_use_id.clone(),
            event: RawValue::from_string(json)?,
        }))
    }

    /// Waits until something was stored in one of them.
    pub(in crate::worker) async fn any_news(threads: &mut [Self]) {
        let news = threads.iter_mut().map(|thread| thread.news().boxed());
        select_all(news).await;
    }

    async fn news(&mut self) {
        loop {
            match self.subscription.next().await {
                Some(Signal::Preview(_)) => {}
                Some(Signal::Event(_) | Signal::Stored(_) | Signal::Look) => return,
                None => {
                    // Signals were missed; the database knows.
                    self.subscription = self.bus.subscribe(self.child.session_id);
                    return;
                }
            }
        }
    }
}
