//! Changing a session: its title, metadata, permission mode, archived state and model.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::changed_model::ChangedModel;
use crate::domain::event::{EventBody, Frame, NewEvent};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::merge_patch::merge;
use crate::domain::model::Effort;
use crate::domain::permission::PermissionMode;
use crate::domain::session::Session;
use crate::domain::string_enum::{nullable_string_enum, string_enum};
use crate::service::deadline::in_time;
use crate::service::error::{Error, FieldError};
use crate::service::json::{not_null, nullable};
use crate::service::session_settings::{
    MAX_METADATA, ModelChange, NOT_READABLE, check_mode, is_readable_object, title_problem,
};
use crate::service::state::Service;
use crate::service::transaction::in_transaction;
use crate::service::versions::check_version;
use crate::store::events::append;
use crate::store::quotas::{ByteQuota, ReservedBytes};
use crate::store::session_changes::{Changeable, change, lock, set_model};
use crate::store::sessions::find;

/// The error for a patch that cannot be merged.
const BAD_NAME: &str = "cannot be merged: the patch or the metadata has a member whose name is not \
    Unicode text, such as one with a lone surrogate; null removes all metadata";

/// Maximum size of a metadata patch, in bytes: enough to remove every member.
const MAX_PATCH: usize = 32 * 1024;

/// Changes of a session. Absent members stay unchanged; null removes a value.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateSession {
    /// A title for display, at most 500 characters.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, max_length = 500)]
    title: Option<Option<String>>,
    /// A merge patch (RFC 7396) of the metadata, at most 32 kB. The patched metadata is at most
    /// 16 kB.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Option<Box<RawValue>>>,
    /// The decision on calls that no rule matches. It applies from the next step of the active run.
    /// `bypass` is accepted only if the operator has enabled it.
    #[serde(default, deserialize_with = "not_null_mode")]
    #[schema(value_type = PermissionMode)]
    permission_mode: Option<PermissionMode>,
    /// The model, from the next run on. The settings that stay must be accepted by it.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    model: Option<String>,
    /// The effort, from the next run on; null for the default of the model.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable_string_enum")]
    #[schema(value_type = Option<Effort>)]
    effort: Option<Option<Effort>>,
    /// The thinking configuration, from the next run on; null for the default of the model.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Object>)]
    thinking: Option<Option<Box<RawValue>>>,
    /// Archives or restores the session. An archived session is left out of lists and accepts no
    /// messages. Its active run and its queued runs continue.
    #[serde(default, deserialize_with = "not_null_bool")]
    #[schema(value_type = bool)]
    archived: Option<bool>,
}

fn not_null_mode<'de, D>(deserializer: D) -> Result<Option<PermissionMode>, D::Error>
where
    D: Deserializer<'de>,
{
    string_enum(deserializer).map(Some)
}

fn not_null_bool<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    bool::deserialize(deserializer).map(Some)
}

/// A request to change a session.
#[derive(Debug)]
pub(crate) struct SessionUpdate {
    pub(crate) tenant: TenantId,
    pub(crate) session_id: SessionId,
    /// The versions of which the session must have one; none for any.
    pub(crate) expected: Option<Vec<i64>>,
    pub(crate) changes: UpdateSession,
}

/// A changed session, and the events of the change.
struct Updated {
    session: Session,
    frames: Vec<Frame>,
    /// The bytes of the event.
    reserved: Option<ReservedBytes>,
}

/// Changes a session, and publishes the event of the change.
pub(crate) async fn update_session(
    service: &Service,
    update: SessionUpdate,
) -> Result<Session, Error> {
    update.changes.check()?;
    check_mode(service, update.changes.permission_mode)?;
    let (tenant, session_id) = (update.tenant, update.session_id);
    let updated = async {
        let quota = service.quotas.stored_bytes(tenant).await?;
        let store = async |conn: &mut PgConnection| update.store(service, &quota, conn).await;
        in_transaction(service, tenant, store).await
    };
    let Updated { session, frames, reserved } = in_time(updated).await?;
    if let Some(reserved) = reserved {
        reserved.keep();
    }
    service.known_sessions.remove(session_id);
    service.bus.publish(session_id, frames);
    Ok(session)
}

impl SessionUpdate {
    async fn store(
        self,
        service: &Service,
        quota: &ByteQuota,
        conn: &mut PgConnection,
    ) -> Result<Updated, Error> {
        let Self { tenant, session_id, expected, changes } = self;
        let missing = || Error::SessionNotFound(session_id.to_string());
        let (before, last_seq) = lock(conn, tenant, session_id).await?.ok_or_else(missing)?;
        check_version(expected.as_deref(), last_seq)?;
        let changed_model =
            ChangedModel::of(&changes.model_change(), service, conn, (tenant, session_id)).await?;
        let Applied { after, event } = changes.apply(&before, changed_model.as_ref())?;
        let (mut frames, mut reserved) = (Vec::new(), None);
        if let Some(event) = event {
            let event = NewEvent::new(&event);
            reserved = Some(quota.reserve(event.body.len()).map_err(Error::QuotaExceeded)?);
            change(conn, session_id, &after).await?;
            if let Some(ChangedModel { after, .. }) = &changed_model {
                set_model(conn, session_id, after).await?;
            }
            frames = append(conn, session_id, None, &[event]).await?;
        }
        let session = find(conn, tenant, session_id).await?.ok_or_else(missing)?;
        Ok(Updated { session, frames, reserved })
    }
}

/// The result of applying changes.
struct Applied {
    after: Changeable,
    /// The event with the changed members; none if nothing changed.
    event: Option<EventBody>,
}

impl UpdateSession {
    fn check(&self) -> Result<(), Error> {
        let mut errors = Vec::new();
        if let Some(problem) = self.title.iter().flatten().find_map(|title| title_problem(title)) {
            errors.push(FieldError::new("/title", problem));
        }
        if let Some(Some(patch)) = &self.metadata {
            if !is_readable_object(patch.get()) {
                errors.push(FieldError::new("/metadata", NOT_READABLE));
            } else if patch.get().len() > MAX_PATCH {
                errors.push(FieldError::new("/metadata", "is a patch larger than 32 kB"));
            }
        }
        errors.extend(self.model_change().problems());
        Error::if_any(errors)
    }

    fn model_change(&self) -> ModelChange {
        ModelChange {
            model: self.model.clone(),
            effort: self.effort,
            thinking: self.thinking.clone(),
        }
    }

    fn apply(self, before: &Changeable, model: Option<&ChangedModel>) -> Result<Applied, Error> {
        let metadata = match self.metadata {
            None => before.metadata.clone(),
            Some(None) => RawValue::from_string("{}".to_owned()).map_err(Error::internal)?,
            Some(Some(patch)) => {
                merge(&before.metadata, &patch).map_err(|_| Error::field("/metadata", BAD_NAME))?
            }
        };
        if metadata.get().len() > MAX_METADATA {
            return Err(Error::field("/metadata", "would be larger than 16 kB"));
        }
        let after = Changeable {
            title: self.title.unwrap_or_else(|| before.title.clone()),
            metadata,
            permission_mode: self.permission_mode.or(before.permission_mode),
            is_archived: self.archived.unwrap_or(before.is_archived),
        };
        let has_title = after.title != before.title;
        let has_metadata = after.metadata.get() != before.metadata.get();
        let has_mode = after.permission_mode != before.permission_mode;
        let has_archived = after.is_archived != before.is_archived;
        let (model, effort, thinking) = model.map(ChangedModel::members).unwrap_or_default();
        let has_changed = has_title
            || has_metadata
            || has_mode
            || has_archived
            || model.is_some()
            || effort.is_some()
            || thinking.is_some();
        let event = EventBody::Updated {
            title: has_title.then(|| after.title.clone()),
            metadata: has_metadata.then(|| after.metadata.clone()),
            permission_mode: after.permission_mode.filter(|_| has_mode),
            model,
            effort,
            thinking,
            archived: has_archived.then_some(after.is_archived),
            sent_history: None,
        };
        Ok(Applied { after, event: has_changed.then_some(event) })
    }
}
