//! The model as a client sees it: one module a provider, and the retry policy they share.

pub mod anthropic;
pub mod catalogue;
mod error;
mod http;
mod input;
pub mod openai;
mod refused;
mod reply_head;
pub mod retry;
mod server;
pub mod upstream;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::domain::context::ReplyCompaction;
use crate::domain::message::Content;
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::provider::{Dialect, Provider};
use crate::domain::session::Settings;
use crate::domain::stop_reason::{ModelStop, Refusal};
use crate::domain::tool::ToolChoice;
use crate::domain::trace::Trace;
use crate::domain::usage::Usage;

pub use error::{ErrorKind, ModelError};
pub use http::BadClient;
pub use refused::Refused;
pub use reply_head::ReplyHead;
pub use server::Server;

/// A server of models, by the protocol that it speaks.
#[derive(Debug, Clone)]
pub enum Model {
    /// The Messages API.
    Anthropic(anthropic::Client),
    /// Chat Completions.
    OpenAi(openai::Client),
}

/// What all requests of a run begin with, as a server takes it.
#[derive(Debug, Clone)]
pub enum Head {
    /// For the Messages API.
    Anthropic(anthropic::Head),
    /// For Chat Completions.
    OpenAi(openai::Head),
}

/// The messages of a request.
#[derive(Debug, Clone, Copy)]
pub struct Messages<'a> {
    /// In the form of the Messages API, joined by commas.
    pub text: &'a str,
    /// The place in the last block of the request before, just before its closing brace, if so
    /// much has come since that the model's side would not look back to what it cached there.
    pub far_mark: Option<usize>,
    /// Whether they begin with a summary.
    pub is_compacted: bool,
}

/// One request, ready to be sent, and sent again.
#[derive(Debug, Clone)]
pub struct Request {
    /// The JSON text.
    pub body: Bytes,
    /// Names of beta features that it uses, joined by commas.
    pub betas: Arc<str>,
    /// The trace that it belongs to.
    pub trace: Option<Trace>,
}

/// A reply that is still coming in.
#[derive(Debug)]
pub enum ReplyStream {
    /// Of the Messages API.
    Anthropic(anthropic::ReplyStream),
    /// Of Chat Completions.
    OpenAi(openai::ReplyStream),
}

impl Model {
    /// A client of this server.
    pub fn of(server: &Server) -> Result<Self, BadClient> {
        Ok(match server {
            Server::Anthropic(config) => Self::Anthropic(anthropic::Client::new(config)?),
            Server::OpenAi(config) => Self::OpenAi(openai::Client::new(config)?),
        })
    }

    /// The protocol.
    pub const fn provider(&self) -> Provider {
        match self {
            Self::Anthropic(_) => Provider::Anthropic,
            Self::OpenAi(_) => Provider::OpenAi,
        }
    }

    /// How the server takes Chat Completions, if it speaks them.
    pub const fn dialect(&self) -> Option<Dialect> {
        match self {
            Self::Anthropic(_) => None,
            Self::OpenAi(client) => Some(client.dialect()),
        }
    }

    /// The head of all requests of a run: what its session pinned, and behind the session's tools
    /// those of the run, if it has any of its own.
    pub fn head(
        &self,
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        prompt_cache: Option<CacheTtl>,
    ) -> Result<Head, serde_json::Error> {
        match self {
            Self::Anthropic(_) => {
                anthropic::Head::new(settings, tools_of_run, prompt_cache).map(Head::Anthropic)
            }
            Self::OpenAi(client) => {
                openai::Head::new(settings, tools_of_run, client.dialect()).map(Head::OpenAi)
            }
        }
    }

    /// Whether it sums a conversation up when it is asked to.
    pub const fn sums_up(&self) -> bool {
        match self {
            Self::Anthropic(_) => true,
            Self::OpenAi(_) => false,
        }
    }

    /// The head of a request that asks for a summary in place of an answer; none where the
    /// protocol has no such thing.
    pub fn summary_head(
        &self,
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        prompt_cache: Option<CacheTtl>,
    ) -> Result<Option<Head>, serde_json::Error> {
        match self {
            Self::Anthropic(_) => {
                let head = anthropic::Head::for_summary(settings, tools_of_run, prompt_cache)?;
                Ok(Some(Head::Anthropic(head)))
            }
            Self::OpenAi(_) => Ok(None),
        }
    }

    /// How many tokens a run's first request with these messages would have, as the model's side
    /// counts them; none where the protocol has no such question.
    pub async fn count_tokens(
        &self,
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        messages: Messages<'_>,
    ) -> Option<Result<i64, ModelError>> {
        match self {
            Self::Anthropic(client) => {
                let head = anthropic::Head::for_count(settings, tools_of_run).ok()?;
                let body = anthropic::body(&head, messages, &ToolChoice::Auto);
                let betas = head.betas(messages.is_compacted);
                Some(client.count_tokens(Request { body, betas, trace: None }).await)
            }
            Self::OpenAi(_) => None,
        }
    }

    /// Sends a request and waits for the headers of its reply.
    pub async fn send(&self, request: Request) -> Result<ReplyStream, ModelError> {
        match self {
            Self::Anthropic(client) => client.send(request).await.map(ReplyStream::Anthropic),
            Self::OpenAi(client) => client.send(request).await.map(ReplyStream::OpenAi),
        }
    }
}

impl Head {
    /// About how many bytes all requests begin with.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Anthropic(head) => head.bytes(),
            // Only a summary asks, which this protocol does not have.
            Self::OpenAi(_) => 0,
        }
    }

    /// One request.
    pub fn request(&self, messages: Messages<'_>, choice: &ToolChoice) -> Request {
        match self {
            Self::Anthropic(head) => {
                let betas = head.betas(messages.is_compacted);
                Request { body: anthropic::body(head, messages, choice), betas, trace: None }
            }
            Self::OpenAi(head) => {
                let body = openai::body(head, messages.text, choice);
                Request { body, betas: Arc::default(), trace: None }
            }
        }
    }
}

impl Head {
    /// What part of these messages the server refused of a request, if its error names one.
    pub fn refused(&self, messages: &str, error: &ModelError) -> Option<Refused> {
        match self {
            Self::Anthropic(_) => error.refused(),
            Self::OpenAi(head) => openai::refused(head, messages, error),
        }
    }
}

impl ReplyStream {
    /// What the headers of the reply said.
    pub fn head(&self) -> &ReplyHead {
        match self {
            Self::Anthropic(stream) => stream.head(),
            Self::OpenAi(stream) => stream.head(),
        }
    }

    /// The next thing that a reader would see; none at the end of the stream.
    ///
    /// Dropping the future between two calls loses nothing.
    pub async fn next(&mut self) -> Result<Option<Progress>, ModelError> {
        match self {
            Self::Anthropic(stream) => stream.next().await,
            Self::OpenAi(stream) => stream.next().await,
        }
    }

    /// The whole reply, once the stream has ended.
    pub fn finish(self) -> Result<Reply, ModelError> {
        match self {
            Self::Anthropic(stream) => stream.finish(),
            Self::OpenAi(stream) => stream.finish(),
        }
    }
}

/// A whole reply of the model, its stream read to the end.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The model's own id of the message; servers that give none leave it empty.
    pub id: String,
    /// The model that answered, which may not be the one that was asked.
    pub model: String,
    /// The blocks as they were received.
    pub content: Content,
    /// Why the model stopped.
    pub stop: ModelStop,
    /// What the request cost.
    pub usage: Usage,
    /// Why the model declined, where it did and said why.
    pub refusal: Refusal,
    /// What the model's side said when it summed up what it was sent, if it did.
    pub summed_up: Option<ReplyCompaction>,
    /// What it left out of what it was sent, if anything: an array.
    pub applied_edits: Option<Box<RawValue>>,
}

/// What a stream tells before it ends, for previews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Nothing that a reader would see.
    Nothing,
    /// A text block begins.
    TextStarted {
        /// The block's place in the reply.
        index: usize,
    },
    /// A thinking block begins.
    ThinkingStarted {
        /// The block's place in the reply.
        index: usize,
    },
    /// A tool call begins.
    ToolUseStarted {
        /// The block's place in the reply.
        index: usize,
        /// The model's id of the call.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More text, thinking or input of the block at this place.
    Delta {
        /// The block's place in the reply.
        index: usize,
        /// What came.
        text: Arc<str>,
    },
}
