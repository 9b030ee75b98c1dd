//! The tools that ship with the service.

pub mod bash;
mod get_time;
mod list_files;
mod read_file;
mod write_file;

use std::sync::Arc;

use super::{Tool, ToolError, Typed};

/// What tools need of the outside.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bash, if there is a sandbox for it.
    pub bash: Option<bash::Bash>,
}

/// All of them that the options allow, in the order in which the model sees them.
pub fn all(options: &Options) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(Typed(read_file::ReadFile)),
        Arc::new(Typed(write_file::WriteFile)),
        Arc::new(Typed(list_files::ListFiles)),
        Arc::new(Typed(get_time::GetTime)),
    ];
    if let Some(bash) = &options.bash {
        tools.push(Arc::new(Typed(bash.clone())));
    }
    tools
}

/// Runs file work where it may block.
pub(in crate::tools) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ToolError::Failed("the file work stopped".to_owned())))
}
