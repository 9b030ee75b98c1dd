//! The files that the model has read, with their hashes at that time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ToolError;
use crate::domain::ids::SessionId;
use crate::store::connections::Connections;
use crate::store::seen_files::find;

/// The files that the model has read in a session.
#[derive(Debug, Clone, Default)]
pub struct SeenFiles(Source);

#[derive(Debug, Clone)]
enum Source {
    /// In the database, where steps store them.
    Stored { pool: Connections, session_id: SessionId },
    /// In memory, for a process without sessions.
    Memory(Arc<Mutex<HashMap<String, Vec<u8>>>>),
}

impl Default for Source {
    fn default() -> Self {
        Self::Memory(Arc::default())
    }
}

impl SeenFiles {
    /// The files that the model has read in this session.
    pub fn of(pool: Connections, session_id: SessionId) -> Self {
        Self(Source::Stored { pool, session_id })
    }

    /// Returns the hash of a file as the model last read it, or `None` if it has not.
    pub async fn hash(&self, path: &str) -> Result<Option<Vec<u8>>, ToolError> {
        match &self.0 {
            Source::Stored { pool, session_id } => {
                let found = pool.with(async |conn| find(conn, *session_id, path).await);
                found.await.map_err(|error| {
                    tracing::warn!(%error, "files read by the model could not be listed");
                    ToolError::Failed(
                        "it is not known now whether the file was read; try again".to_owned(),
                    )
                })
            }
            Source::Memory(seen) => {
                Ok(seen.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned())
            }
        }
    }

    /// Records a file in memory; stored sessions record it with their steps.
    pub fn remember(&self, path: &str, hash: &[u8]) {
        if let Source::Memory(seen) = &self.0 {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(path.to_owned(), hash.to_vec());
        }
    }
}
