//! The files that the model has seen, as they were then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ToolError;
use crate::domain::ids::SessionId;
use crate::store::connections::Connections;
use crate::store::seen_files::find;

/// What the model has seen in a session.
#[derive(Debug, Clone, Default)]
pub struct SeenFiles(Source);

#[derive(Debug, Clone)]
enum Source {
    /// The database, where steps put what calls have seen.
    Stored { pool: Connections, session_id: SessionId },
    /// Nothing that outlives the process.
    Memory(Arc<Mutex<HashMap<String, Vec<u8>>>>),
}

impl Default for Source {
    fn default() -> Self {
        Self::Memory(Arc::default())
    }
}

impl SeenFiles {
    /// What a session has seen.
    pub fn of(pool: Connections, session_id: SessionId) -> Self {
        Self(Source::Stored { pool, session_id })
    }

    /// The hash of a file as the model last saw it; none if it never did.
    pub async fn hash(&self, path: &str) -> Result<Option<Vec<u8>>, ToolError> {
        match &self.0 {
            Source::Stored { pool, session_id } => {
                let found = pool.with(async |conn| find(conn, *session_id, path).await);
                found.await.map_err(|error| {
                    tracing::warn!(%error, "it cannot be told which files were read");
                    ToolError::Failed("it cannot be told whether the file was read".to_owned())
                })
            }
            Source::Memory(seen) => {
                Ok(seen.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned())
            }
        }
    }

    /// Remembers a file, where nothing is stored.
    pub fn remember(&self, path: &str, hash: &[u8]) {
        if let Source::Memory(seen) = &self.0 {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(path.to_owned(), hash.to_vec());
        }
    }
}
