//! Making agents, and their next versions.

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;
use sqlx::{Connection as _, PgConnection};

use super::super::answering::end;
use super::profile::AgentProfile;
use super::resolve::{Found, check};
use super::{AgentResource, ours, taken};
use crate::domain::agent::AgentName;
use crate::domain::ids::TenantId;
use crate::http::auth::Caller;
use crate::http::error::AgentError;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::{expected, expects_none};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::AgentPath;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::store::agents::{MAX_AGENTS, MAX_VERSIONS, Stored, count, find, insert, lock};

/// Makes an agent, or the next version of it.
///
/// The body takes the place of all that the version before says; where it says the same there is no
/// new version. Sessions that were made as earlier versions keep what they have. It is refused if no
/// session could be made as it here. A tenant has at most 200 agents of at most 1000 versions, and a
/// profile at most 256 kB.
#[utoipa::path(
    put, path = "/agents/{name}", operation_id = "put_agent", tag = "agents",
    params(
        ("name" = String, Path, description = "The agent."),
        ("If-Match" = Option<String>, Header,
         description = "The agent's `ETag`: 412 if it has another version since."),
        ("If-None-Match" = Option<String>, Header,
         description = "`*`: 412 if there is an agent of this name."),
    ),
    request_body = AgentProfile,
    responses(
        (status = 200, description = "The agent, which was there before.", body = AgentResource,
         headers(("etag" = String, description = "Its version."))),
        (status = 201, description = "The agent, which is new.", body = AgentResource,
         headers(("etag" = String, description = "Its version."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`agent_name_taken`: an agent of the operator's, or of the service itself, has the name; `too_many_agents`, `too_many_agent_versions`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn put_agent(
    State(api): State<Api>,
    caller: Caller,
    path: AgentPath,
    headers: HeaderMap,
    body: JsonBody<AgentProfile>,
) -> Result<Response, ApiError> {
    let (AgentPath(text), JsonBody(profile)) = (path, body);
    let name: AgentName = text.parse().map_err(|error| ApiError::field("", format!("{error}")))?;
    profile.check()?;
    let (text, description) = (profile.text()?, profile.description.clone());
    check(&api, profile).await?;
    let putting = Putting {
        api: &api,
        tenant: caller.tenant,
        name: &name,
        headers: &headers,
        profile: &text,
        description: description.as_deref(),
    };
    let put = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let mut transaction = conn.begin().await?;
        let met = putting.meet(&mut transaction).await;
        let met = end(transaction, met).await?;
        conn.give_back();
        met
    };
    let (found, is_new) = in_time(put).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(AgentResource::new(&api, name, found)?.respond(status))
}

/// A profile on its way to its agent.
struct Putting<'a> {
    api: &'a Api,
    tenant: TenantId,
    name: &'a AgentName,
    headers: &'a HeaderMap,
    profile: &'a RawValue,
    description: Option<&'a str>,
}

impl Putting<'_> {
    /// The agent as it is then, and whether it is new.
    async fn meet(&self, conn: &mut PgConnection) -> Result<(Found, bool), ApiError> {
        lock(conn, self.tenant).await?;
        let before = find(conn, self.tenant, self.name, None).await?;
        self.check(before.as_ref())?;
        let is_new = before.is_none();
        match before {
            Some(before) if before.profile.get() == self.profile.get() => {
                return Ok((before.into(), false));
            }
            Some(Stored { version, .. }) if version >= MAX_VERSIONS => {
                return Err(AgentError::TooManyVersions(MAX_VERSIONS).into());
            }
            None if count(conn, self.tenant).await? >= MAX_AGENTS => {
                return Err(AgentError::TooMany(MAX_AGENTS).into());
            }
            Some(_) | None => {}
        }
        insert(conn, self.tenant, self.name, (self.description, self.profile)).await?;
        let missing = || ApiError::Internal(format!("{} was stored and is not there", self.name));
        let stored = find(conn, self.tenant, self.name, None).await?.ok_or_else(missing)?;
        Ok((stored.into(), is_new))
    }

    /// Refuses what would hide an agent that all tenants have, and what the client does not expect.
    fn check(&self, before: Option<&Stored>) -> Result<(), ApiError> {
        let ours = ours::find(&self.api.defaults.agents, self.name);
        if let (None, Some(agent)) = (before, ours) {
            return Err(taken(self.name, agent.source));
        }
        let version = before.map(|before| i64::from(before.version));
        let is_expected = match expected(self.headers) {
            Some(versions) => version.is_some_and(|version| versions.contains(&version)),
            None => true,
        };
        if !is_expected || (version.is_some() && expects_none(self.headers)) {
            return Err(ApiError::VersionMismatch);
        }
        Ok(())
    }
}
