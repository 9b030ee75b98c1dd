//! The relay of a sub-agent's events into the session of its parent.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::select_all;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use crate::bus::{Bus, Signal, Subscription};
use crate::domain::event::{EventBody, Frame, NewEvent};
use crate::domain::ids::RunId;
use crate::domain::sub_agent::StartedSubAgent;
use crate::domain::tool::ToolCall;
use crate::store::events::{EventRange, read_some};
use crate::store::sub_agents::{SubAgentRun, find, last_relayed, session_of};
use crate::worker::run::context::RunContext;
use crate::worker::run::stop_cause::StopCause;

/// Maximum number of events, and their approximate maximum size in bytes, that one step relays.
const MAX_EVENTS: i64 = 100;
const MAX_BYTES: i64 = 256 * 1024;

/// The types of events that a parent relays.
const RELAYED_TYPES: [&str; 10] = [
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

/// A sub-agent that works, and the position up to which its events are relayed.
#[derive(Debug)]
pub(super) struct Relay {
    /// The position of its call in the round.
    pub(super) position: usize,
    sub_agent: StartedSubAgent,
    /// The number of the last event that was relayed or skipped.
    relayed: i64,
    bus: Arc<Bus>,
    subscription: Subscription,
}

/// The events of a sub-agent that are not relayed yet.
#[derive(Debug)]
pub(super) struct RelayBatch {
    /// The events to relay.
    pub(super) events: Vec<NewEvent>,
    /// The number of the last event that was read.
    pub(super) up_to: i64,
    /// There are more events to read.
    pub(super) has_more: bool,
    /// The end of the sub-agent, once all of its events are read.
    pub(super) end: Option<SubAgentEnd>,
}

/// The end of a sub-agent.
#[derive(Debug)]
pub(super) enum SubAgentEnd {
    /// Its run has settled.
    Settled(Box<SubAgentRun>),
    /// Its session was deleted.
    Deleted,
}

impl Relay {
    pub(super) fn new(
        bus: &Arc<Bus>,
        position: usize,
        sub_agent: StartedSubAgent,
        relayed: i64,
    ) -> Self {
        let subscription = bus.subscribe(sub_agent.session_id);
        Self { position, sub_agent, relayed, bus: Arc::clone(bus), subscription }
    }

    /// Finds a sub-agent that an earlier attempt of its parent started.
    pub(super) async fn find(
        conn: &mut PgConnection,
        parent: &RunContext<'_>,
        position: usize,
        call: &ToolCall,
        run_id: RunId,
    ) -> Result<Option<Self>, StopCause> {
        let Some(session_id) = session_of(conn, run_id).await? else { return Ok(None) };
        let relayed =
            last_relayed(conn, (parent.session_id(), parent.run_id()), session_id).await?;
        let sub_agent =
            StartedSubAgent { tool_use_id: call.tool_use_id.clone(), session_id, run_id };
        Ok(Some(Self::new(&parent.services.bus, position, sub_agent, relayed)))
    }

    pub(super) fn set_relayed(&mut self, up_to: i64) {
        self.relayed = up_to;
    }

    /// Reads the events that are not relayed yet.
    pub(super) async fn read(&self, conn: &mut PgConnection) -> Result<RelayBatch, StopCause> {
        // The run is read before its events: all events of a settled run are stored.
        let Some(run) = find(conn, self.sub_agent.run_id).await? else {
            let (events, up_to) = (Vec::new(), self.relayed);
            return Ok(RelayBatch {
                events,
                up_to,
                has_more: false,
                end: Some(SubAgentEnd::Deleted),
            });
        };
        let range = EventRange {
            session_id: self.sub_agent.session_id,
            run_id: Some(self.sub_agent.run_id),
            after: self.relayed,
            limit: MAX_EVENTS,
        };
        let piece = read_some(conn, range, MAX_BYTES).await?;
        let up_to = piece.frames.last().map_or(self.relayed, |frame| frame.seq);
        let is_relayed = |frame: &&Frame| RELAYED_TYPES.contains(&frame.kind.as_str());
        let relayed = piece.frames.iter().filter(is_relayed);
        let events = relayed.map(|frame| self.event(frame)).collect::<Result<_, _>>()?;
        let has_ended = run.status.is_terminal() && piece.is_last;
        let end = has_ended.then(|| SubAgentEnd::Settled(Box::new(run)));
        Ok(RelayBatch { events, up_to, has_more: !piece.is_last, end })
    }

    /// The event by which the parent relays an event.
    fn event(&self, frame: &Frame) -> Result<NewEvent, StopCause> {
        let json = String::from_utf8(frame.json().into());
        let json = json.map_err(|error| StopCause::Defect(error.to_string()))?;
        Ok(NewEvent::new(&EventBody::ThreadEvent {
            session_thread_id: self.sub_agent.session_id,
            tool_use_id: self.sub_agent.tool_use_id.clone(),
            event: RawValue::from_string(json)?,
        }))
    }

    /// Waits until one of the sub-agents stores an event.
    pub(super) async fn any_signal(relays: &mut [Self]) {
        let signals = relays.iter_mut().map(|relay| relay.signal().boxed());
        select_all(signals).await;
    }

    async fn signal(&mut self) {
        loop {
            match self.subscription.next().await {
                Some(Signal::Preview(_)) => {}
                Some(Signal::Event(_) | Signal::Stored(_) | Signal::Resync) => return,
                None => {
                    // Signals were missed: the database has the events.
                    self.subscription = self.bus.subscribe(self.sub_agent.session_id);
                    return;
                }
            }
        }
    }
}
