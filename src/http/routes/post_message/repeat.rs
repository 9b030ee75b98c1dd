//! Posts that were made before: by key, by message id, and by what they ask.

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::{Post, Taken};
use crate::domain::message::Content;
use crate::http::error::ApiError;
use crate::http::extract::headers::idempotency_key;
use crate::http::routes::runs::known_run;
use crate::service::Error;
use crate::store::accept::{Earlier, find_earlier};

impl Post<'_> {
    pub(super) fn idempotency_key(&self) -> Result<Option<&str>, ApiError> {
        idempotency_key(self.headers)
    }

    /// The run that the same post made before.
    pub(super) async fn repeated(
        &self,
        key: Option<&str>,
        fingerprint: &[u8],
    ) -> Result<Option<Taken>, ApiError> {
        let message_id = self.message.id.as_deref();
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let earlier =
            find_earlier(&mut conn, self.tenant, self.session_id, key, message_id).await?;
        conn.give_back();
        let Some(Earlier { run_id, session_id, fingerprint: before }) = earlier else {
            return Ok(None);
        };
        if before != fingerprint {
            return Err(ApiError::Service(Error::IdempotencyKeyReused { run_id }));
        }
        let run = known_run(self.api, self.tenant, session_id, run_id).await?;
        Ok(Some(Taken { run, is_repeated: true }))
    }

    /// Whether the same post was made before, as the caller's transaction sees it.
    pub(in crate::http::routes) async fn is_repeated(
        &self,
        conn: &mut PgConnection,
        content: &Content,
    ) -> Result<bool, ApiError> {
        let (key, message_id) = (self.idempotency_key()?, self.message.id.as_deref());
        if key.is_none() && message_id.is_none() {
            return Ok(false);
        }
        match find_earlier(conn, self.tenant, self.session_id, key, message_id).await? {
            Some(Earlier { run_id, fingerprint, .. })
                if fingerprint != self.fingerprint(content)? =>
            {
                Err(ApiError::Service(Error::IdempotencyKeyReused { run_id }))
            }
            earlier => Ok(earlier.is_some()),
        }
    }

    /// What makes two posts the same post: what they say, not what the operator makes of it.
    pub(super) fn fingerprint(&self, content: &Content) -> Result<Vec<u8>, ApiError> {
        let internal = |error: serde_json::Error| ApiError::Internal(error.to_string());
        let options = serde_json::to_string(&self.message.options()?).map_err(internal)?;
        let on_busy = self.message.on_busy.map(|mode| serde_json::to_string(&mode));
        let on_busy = on_busy.transpose().map_err(internal)?;
        let session_id = self.session_id.to_string();
        let always = [session_id.as_bytes(), content.as_str().as_bytes(), options.as_bytes()];
        let beside = (!self.beside.is_empty()).then_some(self.beside);
        let mut hash = Sha256::new();
        for part in always.into_iter().chain(on_busy.as_deref().map(str::as_bytes)).chain(beside) {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        Ok(hash.finalize().to_vec())
    }
}
