//! Clients of model servers, one module per protocol, and the retry policy that they share.

pub mod anthropic;
pub mod catalog;
mod connections;
mod deferred_tools;
mod error;
mod http;
mod input;
pub mod openai;
mod raw_object;
mod refused_content;
mod reply;
mod reply_bounds;
mod reply_head;
mod request;
mod request_limit;
pub mod retry;
mod server;
pub mod server_health;
mod servers;

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::domain::message::BadContent;
use crate::domain::platform::Platform;
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::provider::{Dialect, Provider};
use crate::domain::session::Settings;
use crate::domain::stop_reason::ModelStop;
use crate::domain::tool::ToolChoice;
use deferred_tools::{DeferredInHead, DeferredTools};

use openai::responses;

pub use error::{ErrorKind, ModelError};
pub use http::BadClient;
pub use refused_content::RefusedContent;
pub use reply::{PartialReply, Progress, Reply, estimated_tokens};
pub use reply_head::ReplyHead;
pub use request::{Messages, Request};
pub use request_limit::RequestPermit;
pub use server::Server;
pub use servers::{ModelServer, ModelServers, NamedServer};

/// The client of a model server, by its protocol.
#[derive(Debug, Clone)]
pub enum Model {
    /// The Messages API.
    Anthropic(anthropic::Client),
    /// Chat Completions.
    OpenAi(openai::Client),
    /// Responses.
    Responses(responses::Client),
}

/// The serialized beginning that all requests of a run share.
#[derive(Debug, Clone)]
pub enum Head {
    /// For the Messages API.
    Anthropic(anthropic::Head),
    /// For Chat Completions.
    OpenAi(openai::Head),
    /// For Responses.
    Responses(responses::Head),
}

/// A reply whose stream is being read.
#[derive(Debug)]
pub enum ReplyStream {
    /// Of the Messages API.
    Anthropic(anthropic::ReplyStream),
    /// Of Chat Completions.
    OpenAi(openai::ReplyStream),
    /// Of Responses.
    Responses(responses::ReplyStream),
}

impl Model {
    /// Creates the client of a server.
    pub fn of(server: &Server) -> Result<Self, BadClient> {
        Ok(match server {
            Server::Anthropic(config) => Self::Anthropic(anthropic::Client::new(config)?),
            Server::OpenAi(config) => Self::OpenAi(openai::Client::new(config)?),
            Server::Responses(config) => Self::Responses(responses::Client::new(config)?),
        })
    }

    /// The provider whose protocol the server speaks.
    pub const fn provider(&self) -> Provider {
        match self {
            Self::Anthropic(_) => Provider::Anthropic,
            Self::OpenAi(_) => Provider::OpenAi,
            Self::Responses(_) => Provider::OpenAiResponses,
        }
    }

    /// The dialect of Chat Completions; `None` for other protocols.
    pub const fn dialect(&self) -> Option<Dialect> {
        match self {
            Self::Anthropic(_) | Self::Responses(_) => None,
            Self::OpenAi(client) => Some(client.dialect()),
        }
    }

    /// True if the protocol of the server is Responses.
    pub const fn is_responses(&self) -> bool {
        matches!(self, Self::Responses(_))
    }

    /// The cloud that the server belongs to, if it is one of the Messages API.
    pub const fn platform(&self) -> Option<Platform> {
        match self {
            Self::Anthropic(client) => client.platform(),
            Self::OpenAi(_) | Self::Responses(_) => None,
        }
    }

    /// Builds the head of all requests of a run from the session's settings. The tools of the run
    /// follow those of the session.
    pub fn head(
        &self,
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        prompt_cache: Option<CacheTtl>,
    ) -> Result<Head, serde_json::Error> {
        match self {
            Self::Anthropic(client) => {
                let platform = client.platform();
                anthropic::Head::new(settings, tools_of_run, prompt_cache, platform)
                    .map(Head::Anthropic)
            }
            Self::OpenAi(client) => {
                openai::Head::new(settings, tools_of_run, client.dialect()).map(Head::OpenAi)
            }
            Self::Responses(_) => responses::Head::new(settings, tools_of_run).map(Head::Responses),
        }
    }

    /// Returns true if requests with these messages carry thinking, which the server may refuse if
    /// another model has made it.
    pub fn sends_thinking(&self, messages: &str) -> bool {
        match self {
            Self::Anthropic(_) => messages.contains(r#"thinking""#),
            Self::OpenAi(_) => openai::has_provider_state(messages),
            Self::Responses(_) => responses::has_reasoning(messages),
        }
    }

    /// Builds the head of a request for a summary instead of an answer.
    pub fn summary_head(
        &self,
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        prompt_cache: Option<CacheTtl>,
    ) -> Result<Head, serde_json::Error> {
        match self {
            Self::Anthropic(client) => {
                let platform = client.platform();
                anthropic::Head::for_summary(settings, tools_of_run, prompt_cache, platform)
                    .map(Head::Anthropic)
            }
            Self::OpenAi(client) => {
                openai::Head::for_summary(settings, tools_of_run, client.dialect())
                    .map(Head::OpenAi)
            }
            Self::Responses(_) => {
                responses::Head::for_summary(settings, tools_of_run).map(Head::Responses)
            }
        }
    }

    /// Returns the summary in the reply to such a request, as a JSON array of blocks; none if it has
    /// none.
    pub fn summary_of(&self, reply: &Reply) -> Result<Option<String>, BadContent> {
        match self {
            Self::Anthropic(_) if reply.stop == ModelStop::Compaction => reply.content.summary(),
            Self::Anthropic(_) => Ok(None),
            Self::OpenAi(_) | Self::Responses(_) => openai::summary_of(reply),
        }
    }

    /// Asks the server for the number of input tokens of a run's first request with these
    /// messages; `None` if the protocol has no such endpoint.
    pub async fn count_tokens(
        &self,
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        messages: Messages<'_>,
    ) -> Option<Result<i64, ModelError>> {
        match self {
            Self::Anthropic(client) => {
                let head =
                    anthropic::Head::for_count(settings, tools_of_run, client.platform()).ok()?;
                let messages = Messages { container: None, ..messages };
                let body = anthropic::body(&head, messages, &ToolChoice::AUTO);
                let betas = head.betas(messages.is_compacted);
                let request = Request { body, betas, model_in_url: None, trace: None };
                Some(client.count_tokens(request).await)
            }
            Self::OpenAi(_) | Self::Responses(_) => None,
        }
    }

    /// Sends a request and waits for the headers of its reply.
    pub async fn send(&self, request: Request) -> Result<ReplyStream, ModelError> {
        match self {
            Self::Anthropic(client) => client.send(request).await.map(ReplyStream::Anthropic),
            Self::OpenAi(client) => client.send(request).await.map(ReplyStream::OpenAi),
            Self::Responses(client) => client.send(request).await.map(ReplyStream::Responses),
        }
    }
}

impl Head {
    /// The approximate number of bytes that all requests begin with.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Anthropic(head) => head.bytes(),
            Self::OpenAi(head) => head.bytes(),
            Self::Responses(head) => head.bytes(),
        }
    }

    /// The number of bytes of a body before its messages, if these are sent as they are.
    pub fn messages_start(&self, messages: &str) -> Option<usize> {
        match self {
            Self::Anthropic(head) => {
                let deferred = self.deferred();
                let is_unchanged = deferred.is_none_or(|tools| tools.sends_unchanged(messages));
                head.messages_start().filter(|_| is_unchanged)
            }
            Self::OpenAi(_) | Self::Responses(_) => None,
        }
    }

    /// The number of bytes of a body with these messages that the model does not read; negative if it
    /// reads more than the body has.
    pub fn unread_bytes(&self, messages: &str) -> i64 {
        self.deferred().map_or(0, |tools| tools.unread_bytes(messages))
    }

    /// The number of bytes that a body with these messages has in addition to its head and the messages.
    pub fn added_bytes(&self, messages: &str) -> i64 {
        self.deferred().map_or(0, |tools| tools.added_bytes(messages))
    }

    /// The names of the deferred tools that these messages have found and whose definitions the request
    /// contains in addition to those of the head, in the order in which they were found.
    pub fn found_tools(&self, messages: &str) -> Vec<String> {
        let found = self.deferred().into_iter().flat_map(|tools| tools.found(messages));
        found.map(|tool| tool.name.clone()).collect()
    }

    fn deferred(&self) -> Option<&DeferredTools> {
        let deferred = match self {
            Self::Anthropic(head) => head.deferred(),
            Self::OpenAi(head) => head.deferred(),
            Self::Responses(head) => head.deferred(),
        };
        deferred.map(DeferredInHead::tools)
    }

    /// Builds a request from the head, these messages and a tool choice.
    pub fn request(&self, messages: Messages<'_>, choice: &ToolChoice) -> Request {
        match self {
            Self::Anthropic(head) => {
                let betas = head.betas(messages.is_compacted);
                let (body, model_in_url) =
                    (anthropic::body(head, messages, choice), head.model_in_url());
                Request { body, betas, model_in_url, trace: None }
            }
            Self::OpenAi(head) => {
                let body = openai::body(head, messages.text, choice);
                Request { body, betas: Arc::default(), model_in_url: None, trace: None }
            }
            Self::Responses(head) => {
                let body = responses::body(head, messages.text, choice);
                Request { body, betas: Arc::default(), model_in_url: None, trace: None }
            }
        }
    }
}

impl Head {
    /// Returns the part of the history that the server rejected, if its error names one.
    pub fn refused_content(&self, messages: &str, error: &ModelError) -> Option<RefusedContent> {
        match self {
            Self::Anthropic(_) => error.refused_content(),
            Self::OpenAi(head) => openai::refused_content(head, messages, error),
            Self::Responses(_) => responses::refused_content(messages, error),
        }
    }
}

impl ReplyStream {
    /// The values of the reply's headers.
    pub fn head(&self) -> &ReplyHead {
        match self {
            Self::Anthropic(stream) => stream.head(),
            Self::OpenAi(stream) => stream.head(),
            Self::Responses(stream) => stream.head(),
        }
    }

    /// Returns the next progress for previews, or `None` at the end of the stream.
    ///
    /// Cancel safe: no data is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Progress>, ModelError> {
        match self {
            Self::Anthropic(stream) => stream.next().await,
            Self::OpenAi(stream) => stream.next().await,
            Self::Responses(stream) => stream.next().await,
        }
    }

    /// Returns the complete reply after the end of the stream.
    pub fn finish(&self) -> Result<Reply, ModelError> {
        match self {
            Self::Anthropic(stream) => stream.finish(),
            Self::OpenAi(stream) => stream.finish(),
            Self::Responses(stream) => stream.finish(),
        }
    }

    /// Closes the stream and returns the received part of the reply; `None` if it has not begun.
    pub fn abandon(self) -> Option<PartialReply> {
        match self {
            Self::Anthropic(stream) => stream.abandon(),
            Self::OpenAi(stream) => stream.abandon(),
            Self::Responses(stream) => stream.abandon(),
        }
    }
}
