//! Sends requests and reads their streams.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use secrecy::SecretString;
use tokio::time::{Instant, timeout_at};

use super::assemble::Assembler;
use super::error;
use crate::domain::provider::Dialect;
use crate::model::http::{BadClient, Endpoint, Events, secret_header};
use crate::model::{ModelError, Progress, Reply, ReplyHead, Request};

/// How long the counts and the last event may take once it was said why the reply ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where the model is and how to speak to it.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// With its version, such as `http://localhost:11434/v1`; `/chat/completions` is added to it.
    pub base_url: Url,
    /// Sent as a bearer token; local servers need none.
    pub api_key: Option<SecretString>,
    /// In what servers of the protocol differ.
    pub dialect: Dialect,
    /// The longest silence: before the headers, and between two pieces of a stream.
    pub idle_timeout: Duration,
}

/// A client of one server of Chat Completions.
#[derive(Debug, Clone)]
pub struct Client {
    completions: Endpoint,
    dialect: Dialect,
}

impl Client {
    /// A client with pooled connections.
    pub fn new(config: &ClientConfig) -> Result<Self, BadClient> {
        let mut headers = HeaderMap::new();
        if let Some(key) = &config.api_key {
            headers.insert(AUTHORIZATION, secret_header("Bearer ", key)?);
        }
        let path = ["chat", "completions"];
        let idle = config.idle_timeout;
        let completions = Endpoint::new(&config.base_url, &path, headers, idle, error::read)?;
        Ok(Self { completions, dialect: config.dialect })
    }

    /// In what this server differs from others.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Sends a request and waits for the headers of its reply.
    pub async fn send(&self, request: Request) -> Result<ReplyStream, ModelError> {
        let sent = request.body.clone();
        let post = self.completions.post(request.body, request.trace);
        let events = self.completions.send(post).await?;
        let (assembler, ahead) = (Assembler::new(sent), VecDeque::new());
        Ok(ReplyStream { events, assembler, ahead, until: None })
    }
}

/// A reply that is still coming in.
#[derive(Debug)]
pub struct ReplyStream {
    events: Events,
    assembler: Assembler,
    /// What the last chunk told and nobody has taken yet.
    ahead: VecDeque<Progress>,
    /// When the reply is taken as whole though its last event has not come.
    until: Option<Instant>,
}

impl ReplyStream {
    /// What the headers of the reply said.
    pub fn head(&self) -> &ReplyHead {
        self.events.head()
    }

    /// The next thing that a reader would see; none at the end of the stream.
    ///
    /// Dropping the future between two calls loses nothing.
    pub async fn next(&mut self) -> Result<Option<Progress>, ModelError> {
        loop {
            if let Some(progress) = self.ahead.pop_front() {
                return Ok(Some(progress));
            }
            // The connection may stay open after the last event.
            if self.assembler.is_done() {
                return Ok(None);
            }
            let Some(data) = self.event().await? else { return Ok(None) };
            self.ahead.extend(self.assembler.push(&data)?);
        }
    }

    /// The data of the next event. Some servers send no last one, and keep the connection open.
    async fn event(&mut self) -> Result<Option<String>, ModelError> {
        if !self.assembler.is_ended() {
            return self.events.next().await;
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + LAST_WORDS);
        // What breaks now breaks nothing of it.
        Ok(timeout_at(until, self.events.next()).await.ok().and_then(Result::ok).flatten())
    }

    /// The whole reply, once the stream has ended.
    pub fn finish(self) -> Result<Reply, ModelError> {
        self.assembler.finish()
    }
}
