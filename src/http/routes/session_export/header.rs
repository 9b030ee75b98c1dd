//! The first line of an export: the session without its messages.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::domain::budget::Budget;
use crate::domain::ids::SessionId;
use crate::domain::model::Effort;
use crate::domain::model_options::ServiceTier;
use crate::domain::permission::{PermissionMode, Rule};
use crate::domain::run::Limits;
use crate::domain::session::{Dispatch, Session, Settings};
use crate::domain::system::SystemPrompt;
use crate::http::error::ApiError;
use crate::http::resources::{HistoryItem, ModelMetadata};
use crate::http::routes::sessions::CreateSession;
use crate::http::sub_agents::SessionSubAgent;

/// The version of the lines. A later one may have more members and more types of lines.
pub(in crate::http::routes) const VERSION: u32 = 1;

/// The first line of an export.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ExportHeader {
    /// `session`.
    r#type: &'static str,
    /// The version of this format: 1.
    version: u32,
    /// The session that was exported.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// What would make a session like it.
    #[schema(value_type = CreateSession)]
    settings: ExportSettings,
}

/// A line of an export in lines of JSON.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "for the document; lines are written as they come")]
pub(in crate::http) enum ExportLine {
    /// The first.
    Session(Box<ExportHeader>),
    /// A message, of which there are any number.
    Message(HistoryItem),
    /// The last.
    End(ExportEnd),
}

/// The last line of an export.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ExportEnd {
    /// `end`.
    pub(super) r#type: &'static str,
    /// How many messages came before.
    pub(super) messages: i32,
}

/// The settings of a session in the form in which one is made.
#[derive(Debug, Serialize)]
struct ExportSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    metadata: Box<RawValue>,
    model: String,
    max_tokens: u32,
    system: SystemPrompt,
    tools: Vec<Value>,
    dispatch: Dispatch,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Box<RawValue>>,
    stop_sequences: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<ServiceTier>,
    model_metadata: ModelMetadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Box<RawValue>>,
    betas: Vec<String>,
    context: ExportContext,
    limits: Limits,
    budget: Budget,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_mode: Option<PermissionMode>,
    permissions: Vec<Rule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sub_agents: Vec<SessionSubAgent>,
}

#[derive(Debug, Serialize)]
struct ExportContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    edits: Option<Box<RawValue>>,
    compact_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    compact_instructions: Option<String>,
}

impl ExportHeader {
    /// The folder of the session is named where it is not the usual one of the service.
    pub(super) fn new(session: Session, usual: Option<&str>) -> Result<Self, ApiError> {
        let settings = session.settings;
        let tools = tools(&settings).map_err(|error| ApiError::Internal(error.to_string()))?;
        let (options, context) = (*settings.model_options, *settings.context);
        Ok(Self {
            r#type: "session",
            version: VERSION,
            session_id: session.id,
            created_at: session.created_at,
            settings: ExportSettings {
                title: session.title,
                metadata: session.metadata,
                model: settings.model,
                max_tokens: settings.max_tokens,
                system: settings.system,
                tools,
                dispatch: settings.dispatch,
                workspace: session.workspace.filter(|folder| Some(folder.as_str()) != usual),
                thinking: settings.thinking,
                stop_sequences: settings.stop_sequences,
                effort: options.effort,
                service_tier: options.service_tier,
                model_metadata: ModelMetadata { user_id: options.user_id },
                output_schema: options.output_schema,
                betas: options.betas,
                context: ExportContext {
                    edits: context.edits,
                    // Nothing would be the importing service's choice.
                    compact_at: context.compact_at.unwrap_or(0),
                    compact_instructions: context.compact_instructions,
                },
                limits: settings.limits,
                budget: settings.budget,
                permission_mode: session.permission_mode.or(settings.permission_mode),
                permissions: settings.permissions,
                sub_agents: settings.sub_agents.into_iter().map(Into::into).collect(),
            },
        })
    }
}

/// The tools as a session is given them: those of the service by their names.
fn tools(settings: &Settings) -> Result<Vec<Value>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Definition {
        name: String,
        r#type: Option<String>,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    let definitions: Vec<Definition> = serde_json::from_str(settings.tools.get())?;
    let given = definitions.into_iter().map(|Definition { name, r#type, mut rest }| {
        let mut tool = Map::from_iter([("name".to_owned(), Value::from(name.as_str()))]);
        if r#type.is_some() {
            tool.insert("options".to_owned(), Value::Object(rest));
        } else if settings.client_tools.contains(&name) {
            tool.append(&mut rest);
            tool.insert("client".to_owned(), Value::Bool(true));
        } else {
            return Value::from(name);
        }
        Value::Object(tool)
    });
    Ok(given.collect())
}
