//! Stored responses.

use super::id::ResponseId;
use super::mapper::ResponseMapper;
use super::resource::OpenAiResponse;
use crate::domain::ids::TenantId;
use crate::domain::run::Run;
use crate::http::adapters::event::RunEvent;
use crate::http::error::ApiError;
use crate::service::events::list_run_events;
use crate::service::lookup::find_run_by_id;
use crate::service::sessions::find_session;
use crate::service::{Error, Service};

/// A response that was begun by an earlier request.
#[derive(Debug)]
pub(super) struct FoundResponse {
    pub(super) run: Run,
    /// The number of the event before the first one of the response.
    pub(super) after: i64,
}

/// Finds a response by its id.
pub(super) async fn find_response(
    service: &Service,
    tenant: TenantId,
    id: &str,
) -> Result<FoundResponse, ApiError> {
    let missing = || ApiError::from(Error::RunNotFound(id.to_owned()));
    let ResponseId { run_id, after } = id.parse().map_err(|()| missing())?;
    let run = match find_run_by_id(service, tenant, run_id).await {
        Err(Error::RunNotFound(_)) => return Err(missing()),
        found => found?,
    };
    let is_of_run = (run.accepted_seq - 1..run.seq).contains(&after);
    is_of_run.then_some(FoundResponse { run, after }).ok_or_else(missing)
}

impl FoundResponse {
    /// The response without its output.
    pub(super) async fn head(
        &self,
        service: &Service,
        tenant: TenantId,
    ) -> Result<OpenAiResponse, ApiError> {
        let session = find_session(service, tenant, self.run.session_id).await?;
        Ok(OpenAiResponse::stored(&session, &self.run, self.after))
    }

    /// The response as it is now.
    pub(super) async fn read(
        &self,
        service: &Service,
        tenant: TenantId,
    ) -> Result<OpenAiResponse, ApiError> {
        let head = self.head(service, tenant).await?;
        let mut mapper = ResponseMapper::new(self.after);
        let mut last = self.run.accepted_seq - 1;
        while !mapper.is_complete {
            let page = list_run_events(service, tenant, &self.run, last).await?;
            let Some(newest) = page.last() else { return Ok(head.so_far(&mapper, &self.run)) };
            last = newest.seq;
            for frame in &page {
                mapper.event(frame.seq, RunEvent::of(frame), &mut Vec::new());
            }
        }
        let ending = mapper.end(&mut Vec::new());
        Ok(head.ended(&mapper, ending))
    }
}
