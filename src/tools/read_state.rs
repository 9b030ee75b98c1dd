//! The read state of a session: the files that the model has read, with the hash of each file when
//! it was read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::ToolError;
use crate::domain::ids::SessionId;
use crate::store::connections::Connections;
use crate::store::read_state::find;

/// The files that the model has read in a session.
#[derive(Debug, Clone, Default)]
pub struct ReadState(Backend);

#[derive(Debug, Clone)]
enum Backend {
    /// In the database. The transaction of each step stores the files that it read.
    Stored { pool: Connections, session_id: SessionId },
    /// In memory, for a process without sessions.
    Memory(Arc<Mutex<HashMap<String, Vec<u8>>>>),
}

impl Default for Backend {
    fn default() -> Self {
        Self::Memory(Arc::default())
    }
}

impl ReadState {
    /// Returns the files that the model has read in the given session.
    pub fn of(pool: Connections, session_id: SessionId) -> Self {
        Self(Backend::Stored { pool, session_id })
    }

    /// Returns the hash of a file as the model last read it, or `None` if it has not.
    pub async fn hash(&self, path: &str) -> Result<Option<Vec<u8>>, ToolError> {
        match &self.0 {
            Backend::Stored { pool, session_id } => {
                let found = pool.with(async |conn| find(conn, *session_id, path).await);
                found.await.map_err(|error| {
                    tracing::warn!(%error, "files read by the model could not be listed");
                    ToolError::Failed(
                        "the service cannot determine now whether the file was read; try again"
                            .to_owned(),
                    )
                })
            }
            Backend::Memory(files) => {
                Ok(files.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned())
            }
        }
    }

    /// Records a file in memory. For stored sessions this has no effect, because the step stores
    /// it.
    pub fn remember(&self, path: &str, hash: &[u8]) {
        if let Backend::Memory(files) = &self.0 {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            files.insert(path.to_owned(), hash.to_vec());
        }
    }
}
