//! Whether the next request may be sent. Without a budget nobody is asked.

use super::drive::Driver;
use super::halt::Halt;
use super::patience::{Patience, in_time};
use crate::domain::budget::Estimate;
use crate::model::Request;
use crate::store::budgets::{Reserved, of_session, reserve};

impl Driver<'_> {
    /// Reserves what a request may take at most, of every budget that holds for it.
    pub(super) async fn reserve(
        &mut self,
        request: &Request,
        max_tokens: Option<u32>,
    ) -> Result<(), Halt> {
        let settings = &self.run.settings;
        if !self.is_budgeted && settings.budget.is_open() {
            return Ok(());
        }
        let bytes = i64::try_from(request.body.len()).unwrap_or(i64::MAX);
        let max_tokens = max_tokens.unwrap_or(settings.max_tokens);
        let estimate = Estimate::new(bytes, max_tokens, settings.price, self.measured);
        let mut patience = Patience::default();
        loop {
            match in_time(self.try_reserve(&estimate)).await {
                Ok(Reserved::Granted) => return Ok(()),
                Ok(Reserved::Refused(exceeded)) => return Err(Halt::Budget(exceeded)),
                Ok(Reserved::Fenced) => return Err(Halt::LeaseLost),
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }

    /// The session's own budget comes first: it takes no lock.
    async fn try_reserve(&self, estimate: &Estimate) -> Result<Reserved, Halt> {
        let mut conn = self.worker.parts.pool.acquire().await?;
        let budget = self.run.settings.budget;
        let mut reserved = Reserved::Granted;
        if !budget.is_open() {
            let standing = of_session(&mut conn, self.session_id(), budget).await?;
            reserved = standing.refuses(estimate).map_or(reserved, Reserved::Refused);
        }
        if self.is_budgeted && reserved == Reserved::Granted {
            reserved = reserve(&mut conn, self.run.fence, estimate).await?;
        }
        conn.give_back();
        Ok(reserved)
    }
}
