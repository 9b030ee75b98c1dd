//! Doing what was posted: what stands before the message in one transaction, and then the message.

use sqlx::{Connection as _, PgConnection};

use super::AppliedEvent;
use super::body::Step;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::message::Content;
use crate::http::error::ApiError;
use crate::http::routes::answering::{Met, end};
use crate::http::routes::approvals::Deciding;
use crate::http::routes::post_message::{Post, Taken};
use crate::http::routes::runs::list_open;
use crate::http::routes::tool_results;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::cancel::StopRequest;
use crate::store::runs::lock_live;
use crate::store::sessions::last_seq;

/// Events on their way.
pub(super) struct Applying<'a> {
    pub(super) api: &'a Api,
    pub(super) tenant: TenantId,
    pub(super) session_id: SessionId,
    pub(super) steps: Vec<Step>,
    pub(super) post: Option<(Post<'a>, Content)>,
}

/// What a step has done, to be told after the commit.
enum Done {
    Stopped(Vec<StopRequest>),
    /// As many events as there were answers.
    Answered(Box<Met>, usize),
}

/// The runs that an event has to do with, and whether it was there before.
pub(super) type Outcome = (Vec<RunId>, bool);

impl Applying<'_> {
    /// Checks what can be known of the session before anything is done.
    pub(super) async fn check(&self, last: &str) -> Result<(), ApiError> {
        for step in &self.steps {
            if let Step::Results(given) = step {
                tool_results::check_for_model(self.api, self.tenant, self.session_id, given)
                    .await?;
            }
        }
        match &self.post {
            Some((post, content)) => {
                post.check_for_session(content).await.map_err(|error| error.beneath(last))
            }
            None => Ok(()),
        }
    }

    /// Does what stands before the message, or nothing of it; none if the message was accepted
    /// before, and with it all the rest.
    pub(super) async fn take_steps(&self) -> Result<Option<Vec<Outcome>>, ApiError> {
        if self.steps.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let mut transaction = conn.begin().await?;
        let met = self.meet(&mut transaction).await;
        let met = end(transaction, met).await?;
        conn.give_back();
        let Some(done) = met? else { return Ok(None) };
        let mut outcomes = Vec::new();
        for one in done {
            one.tell(self.api, self.session_id, &mut outcomes).await;
        }
        Ok(Some(outcomes))
    }

    async fn meet(&self, conn: &mut PgConnection) -> Result<Option<Vec<Done>>, ApiError> {
        // From here on no message of the session is accepted: one that is not there yet cannot be
        // interrupted by the request that brings it.
        lock_live(conn, self.tenant, self.session_id).await?;
        let missing = || ApiError::Service(Error::SessionNotFound(self.session_id.to_string()));
        last_seq(conn, self.tenant, self.session_id).await?.ok_or_else(missing)?;
        if let Some((post, content)) = &self.post
            && post.is_repeated(conn, content).await?
        {
            return Ok(None);
        }
        let mut done = Vec::new();
        for step in &self.steps {
            done.push(self.meet_step(conn, step).await?);
        }
        Ok(Some(done))
    }

    async fn meet_step(&self, conn: &mut PgConnection, step: &Step) -> Result<Done, ApiError> {
        let (tenant, session_id) = (self.tenant, self.session_id);
        match step {
            Step::Interrupt => {
                let mut stops = Vec::new();
                for run_id in list_open(conn, tenant, session_id).await? {
                    stops.push(StopRequest::make(conn, tenant, session_id, run_id).await?);
                }
                Ok(Done::Stopped(stops))
            }
            Step::Confirm(place, tool_use_id, wanted) => {
                let deciding = Deciding { api: self.api, tenant, session_id, tool_use_id, wanted };
                let met = deciding.meet(conn).await.map_err(|error| error.beneath(place))?;
                Ok(Done::Answered(Box::new(met), 1))
            }
            Step::Results(given) => {
                let met = tool_results::meet(conn, tenant, session_id, given, "/events").await?;
                Ok(Done::Answered(Box::new(met), given.len()))
            }
        }
    }

    /// Accepts the message.
    pub(super) async fn take_message(&self) -> Result<Option<Taken>, ApiError> {
        match &self.post {
            // Boxed, because it is large.
            Some((post, content)) => Ok(Some(Box::pin(in_time(post.take(content))).await?)),
            None => Ok(None),
        }
    }
}

impl Done {
    /// Tells readers and workers.
    async fn tell(self, api: &Api, session_id: SessionId, outcomes: &mut Vec<Outcome>) {
        match self {
            Self::Stopped(stops) => {
                outcomes.push((stops.iter().map(StopRequest::run_id).collect(), false));
                for stop in stops {
                    stop.publish(&api.service);
                }
            }
            Self::Answered(met, events) => {
                let (run_id, is_repeated) = met.announce(api, session_id).await;
                outcomes.extend(std::iter::repeat_n((vec![run_id], is_repeated), events));
            }
        }
    }
}

/// What became of each event. Where the message was there before, so was all that stands before it,
/// and nobody has looked at that again.
pub(super) fn applied(
    kinds: &[&'static str],
    steps: Option<Vec<Outcome>>,
    message: Option<&Taken>,
) -> Vec<AppliedEvent> {
    let before = kinds.len() - usize::from(message.is_some());
    let steps = steps.unwrap_or_else(|| vec![(Vec::new(), true); before]);
    let message = message.map(|taken| (vec![taken.run.id], taken.is_repeated));
    let outcomes = steps.into_iter().chain(message);
    let event = |(kind, (run_ids, repeated)): (&&'static str, Outcome)| AppliedEvent {
        r#type: kind,
        repeated,
        run_ids,
    };
    kinds.iter().zip(outcomes).map(event).collect()
}
