//! Idempotency: repeated posts of one message, found by key or message id and compared by a
//! fingerprint.

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::message_post::{MessagePost, PostedRun};
use crate::domain::tool::ToolChoice;
use crate::service::error::Error;
use crate::service::lookup::find_run;
use crate::store::accept::{EarlierRun, NewRun, find_earlier};

impl MessagePost<'_> {
    /// Returns true if the request can be recognized when it is repeated.
    pub(super) const fn is_repeatable(&self) -> bool {
        self.request.idempotency_key.is_some() || self.message.id.is_some()
    }

    /// The run of an earlier identical request.
    pub(super) async fn repeated(&self, fingerprint: &[u8]) -> Result<Option<PostedRun>, Error> {
        let find = async |conn: &mut PgConnection| self.find_earlier(conn).await;
        let Some(earlier) = self.service.pool.with(self.tenant, find).await? else {
            return Ok(None);
        };
        if earlier.fingerprint != fingerprint {
            return Err(Error::IdempotencyKeyReused { run_id: earlier.run_id });
        }
        let run = find_run(self.service, self.tenant, earlier.session_id, earlier.run_id).await?;
        Ok(Some(PostedRun { run, is_repeated: true }))
    }

    /// The run of an earlier identical request, or else this error.
    pub(super) async fn repeated_or(
        &self,
        new: &NewRun<'_>,
        error: Error,
    ) -> Result<PostedRun, Error> {
        if !self.is_repeatable() {
            return Err(error);
        }
        self.repeated(new.fingerprint).await?.ok_or(error)
    }

    /// Returns true if an identical request was accepted before, as seen by the caller's transaction.
    pub(in crate::service) async fn is_repeated(
        &self,
        conn: &mut PgConnection,
    ) -> Result<bool, Error> {
        if !self.is_repeatable() {
            return Ok(false);
        }
        let Some(earlier) = self.find_earlier(conn).await? else { return Ok(false) };
        if earlier.fingerprint != self.fingerprint()? {
            return Err(Error::IdempotencyKeyReused { run_id: earlier.run_id });
        }
        Ok(true)
    }

    async fn find_earlier(&self, conn: &mut PgConnection) -> Result<Option<EarlierRun>, Error> {
        let key = self.request.idempotency_key.as_deref();
        let message_id = self.message.id.as_deref();
        Ok(find_earlier(conn, self.tenant, self.session_id, key, message_id).await?)
    }

    /// A hash of the request. It covers what the client sent, without the defaults of the operator.
    pub(super) fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        let message = self.message;
        let mut options = message.options()?;
        // Stored fingerprints have a choice in any case.
        options.tool_choice.get_or_insert(ToolChoice::AUTO);
        let options = serde_json::to_string(&options).map_err(Error::internal)?;
        let on_busy = message.on_busy.map(|mode| serde_json::to_string(&mode));
        let on_busy = on_busy.transpose().map_err(Error::internal)?;
        let change = &message.model_change;
        let change = (!change.is_unset()).then(|| serde_json::to_string(change)).transpose();
        let change = change.map_err(Error::internal)?.map(|change| format!("model {change}"));
        let session_id = self.session_id.to_string();
        let content = message.content.as_str();
        let always = [session_id.as_bytes(), content.as_bytes(), options.as_bytes()];
        let others = Some(self.request.other_events.as_slice()).filter(|events| !events.is_empty());
        let mut hash = Sha256::new();
        let on_busy = on_busy.as_deref().map(str::as_bytes);
        let change = change.as_deref().map(str::as_bytes);
        for part in always.into_iter().chain(on_busy).chain(others).chain(change) {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        Ok(hash.finalize().to_vec())
    }
}
