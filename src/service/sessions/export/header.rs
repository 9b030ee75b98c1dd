//! The lines of an export in JSON Lines.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::history_item::HistoryItem;
use crate::domain::budget::Budget;
use crate::domain::generation::Generation;
use crate::domain::ids::SessionId;
use crate::domain::limits::Limits;
use crate::domain::model::Effort;
use crate::domain::model_options::ServiceTier;
use crate::domain::permission::{PermissionMode, Rule};
use crate::domain::session::{Dispatch, InterruptedReplies, Session, Settings};
use crate::domain::system::SystemPrompt;
use crate::domain::tool::ToolChoice;
use crate::service::error::Error;
use crate::service::session_settings::{CreateSession, ModelMetadata, SessionSubAgent};

/// The version of the export format. A later version may add members and types of lines.
pub(in crate::service::sessions) const VERSION: u32 = 1;

/// The first line of an export: the session without its messages.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ExportHeader {
    /// `session`.
    r#type: &'static str,
    /// The version of this format: 1.
    version: u32,
    /// The session that was exported.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// The time when the session was created.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    created_at: Timestamp,
    /// Settings that create an equal session.
    #[schema(value_type = CreateSession)]
    settings: ExportSettings,
}

/// A line of an export in JSON Lines.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema is used; lines are written one by one")]
pub(crate) enum ExportLine {
    /// The first line.
    Session(Box<ExportHeader>),
    /// A message. An export has any number of them.
    Message(Box<HistoryItem>),
    /// The last line.
    End(ExportEnd),
}

/// The last line of an export.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ExportEnd {
    /// `end`.
    r#type: &'static str,
    /// The number of messages in the export.
    messages: i32,
}

impl ExportEnd {
    pub(super) const fn new(messages: i32) -> Self {
        Self { r#type: "end", messages }
    }
}

/// The settings of a session in the form of a request to create one.
#[derive(Debug, Serialize)]
struct ExportSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    metadata: Box<RawValue>,
    model: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fallback_models: Vec<String>,
    max_tokens: u32,
    system: SystemPrompt,
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deferred_tools: Vec<String>,
    dispatch: Dispatch,
    interrupted_replies: InterruptedReplies,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    generate_title: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Box<RawValue>>,
    stop_sequences: Vec<String>,
    #[serde(flatten)]
    generation: Generation,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<ServiceTier>,
    model_metadata: ModelMetadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Box<RawValue>>,
    betas: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
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
    /// The header of a session. The workspace is left out if it is the default of the service.
    pub(super) fn new(session: Session, default: Option<&str>) -> Result<Self, Error> {
        let settings = session.settings;
        let tools = tools(&settings).map_err(Error::internal)?;
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
                fallback_models: settings.fallback_models.into_iter().map(|it| it.model).collect(),
                max_tokens: settings.max_tokens,
                system: settings.system,
                tools,
                deferred_tools: settings.deferred_tools.map(|it| it.names).unwrap_or_default(),
                dispatch: settings.dispatch,
                interrupted_replies: settings.interrupted_replies,
                generate_title: settings.generate_title,
                workspace: session.workspace.filter(|folder| Some(folder.as_str()) != default),
                thinking: settings.thinking,
                stop_sequences: settings.stop_sequences,
                generation: options.generation,
                effort: options.effort,
                service_tier: options.service_tier,
                model_metadata: ModelMetadata { user_id: options.user_id },
                output_schema: options.output_schema,
                betas: options.betas,
                tool_choice: options.tool_choice,
                context: ExportContext {
                    edits: context.edits,
                    // Without a value the importing service would apply its own default.
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

/// The tools in the form of a request: tools of the service by their names, unless the session has
/// changed their descriptions. The tool that finds deferred tools follows from these.
fn tools(settings: &Settings) -> Result<Vec<Value>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Definition {
        name: String,
        r#type: Option<String>,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    let definitions: Vec<Definition> = serde_json::from_str(settings.tools.get())?;
    let definitions = definitions.into_iter().filter(|tool| !settings.is_tool_search(&tool.name));
    let tools = definitions.map(|Definition { name, r#type, mut rest }| {
        let mut tool = Map::from_iter([("name".to_owned(), Value::from(name.as_str()))]);
        if r#type.is_some() {
            tool.insert("options".to_owned(), Value::Object(rest));
        } else if settings.client_tools.contains(&name) {
            tool.append(&mut rest);
            tool.insert("client".to_owned(), Value::Bool(true));
        } else if settings.described_tools.contains(&name) || rest.contains_key("strict") {
            let description = rest.remove_entry("description");
            tool.extend(description.filter(|_| settings.described_tools.contains(&name)));
            tool.extend(rest.remove_entry("strict"));
        } else {
            return Value::from(name);
        }
        Value::Object(tool)
    });
    Ok(tools.collect())
}
