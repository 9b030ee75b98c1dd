//! A reader of the feed.

use std::sync::Arc;

use sqlx::PgConnection;
use tokio::sync::broadcast;

use super::feed::{CHUNK, FeedBatch, MAX_CHANGED, max_changed};
use super::load::read_items;
use crate::domain::feed_position::FeedPosition;
use crate::domain::ids::TenantId;
use crate::service::error::Error;
use crate::service::paging::CursorSource;
use crate::service::state::Service;
use crate::store::change_feed::{ChangedSession, list_changes, position};

/// The time for which a position is valid, in seconds: deletions are remembered for 30 days.
const POSITION_LIFETIME: i64 = 29 * 24 * 3600;

/// A reader of the feed of one tenant.
#[derive(Debug)]
pub(crate) struct FeedReader {
    tenant: TenantId,
    /// The position that the reader has reached.
    pub(crate) position: FeedPosition,
    source: CursorSource,
    receiver: broadcast::Receiver<Arc<FeedBatch>>,
    /// True if the receiver has missed a batch, or has none.
    is_behind: bool,
    /// True if the first part of the present batch was received.
    is_in_batch: bool,
    missed: Option<Missed>,
}

/// Changes that the receiver does not have.
#[derive(Debug)]
struct Missed {
    sessions: Vec<ChangedSession>,
    /// The number of sessions that were returned.
    done: usize,
    to: FeedPosition,
}

impl FeedReader {
    /// Starts after a position, or with the changes from now on.
    pub(crate) async fn start(
        service: &Service,
        tenant: TenantId,
        after: Option<FeedPosition>,
        source: CursorSource,
    ) -> Result<Self, Error> {
        let now = service.pool.with(tenant, async |conn| position(conn).await).await?;
        let receiver = service.change_feed.join(tenant, &now);
        let is_behind = after.is_some();
        if let Some(after) = &after
            && (after.is_ahead_of(&now) || after.taken_at() < now.taken_at() - POSITION_LIFETIME)
        {
            return Err(source.refuse(
                "is too old; list the sessions again, and open the stream without a position",
            ));
        }
        let position = after.unwrap_or(now);
        let (is_in_batch, missed) = (false, None);
        let mut reader =
            Self { tenant, position, source, receiver, is_behind, is_in_batch, missed };
        if is_behind {
            reader.catch_up(service).await?;
        }
        Ok(reader)
    }

    /// The next part of the feed. A caller may stop waiting for it at any time.
    pub(crate) async fn next(&mut self, service: &Service) -> Result<Arc<FeedBatch>, Error> {
        loop {
            if self.is_behind {
                self.catch_up(service).await?;
            }
            if self.missed.is_some() {
                return Ok(Arc::new(self.next_missed(service).await?));
            }
            match self.receiver.recv().await {
                Ok(batch) if self.is_wanted(&batch) => {
                    if batch.is_last {
                        self.position = batch.to.clone();
                        self.is_in_batch = false;
                    }
                    return Ok(batch);
                }
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => self.is_behind = true,
                Err(broadcast::error::RecvError::Closed) => {
                    let now = service.pool.with(self.tenant, async |conn| position(conn).await);
                    self.receiver = service.change_feed.join(self.tenant, &now.await?);
                    self.is_behind = true;
                }
            }
        }
    }

    /// False for a batch whose sessions the reader has seen in a later state, and for a batch of which
    /// it has not received the first part: its changes come again.
    fn is_wanted(&mut self, batch: &FeedBatch) -> bool {
        self.is_in_batch |= batch.is_first;
        self.is_in_batch && batch.to.order(&self.position).is_gt()
    }

    /// Reads which sessions have changed since the position of the reader.
    async fn catch_up(&mut self, service: &Service) -> Result<(), Error> {
        let (tenant, after) = (self.tenant, &self.position);
        let read = service.pool.with(tenant, async |conn: &mut PgConnection| {
            list_changes(conn, &[tenant], after, max_changed()).await
        });
        let piece = read.await?;
        if piece.sessions.len() >= MAX_CHANGED {
            return Err(self.source.refuse(format!(
                "is followed by changes of {MAX_CHANGED} sessions or more; list the sessions again, \
                 and open the stream without a position"
            )));
        }
        self.missed = Some(Missed { sessions: piece.sessions, done: 0, to: piece.to });
        self.is_behind = false;
        self.is_in_batch = false;
        Ok(())
    }

    async fn next_missed(&mut self, service: &Service) -> Result<FeedBatch, Error> {
        let Some(missed) = &mut self.missed else {
            return Err(Error::internal("a reader of the feed has missed nothing"));
        };
        let end = missed.sessions.len().min(missed.done + CHUNK);
        let chunk = missed.sessions.get(missed.done..end).unwrap_or_default();
        let items = read_items(service, self.tenant, chunk).await?;
        let (is_first, is_last) = (missed.done == 0, end == missed.sessions.len());
        let to = missed.to.clone();
        missed.done = end;
        if is_last {
            self.position = to.clone();
            self.missed = None;
        }
        Ok(FeedBatch { items, to, is_first, is_last })
    }
}
